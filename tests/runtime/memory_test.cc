#include "runtime/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/cpu/pages.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMib = size_t{1} << 20;

/// A folder with the files in which a kernel reports memory: 8 GiB in total, 6 GiB available.
class Machine {
  public:
    Machine() {
        std::string name = (fs::temp_directory_path() / "trireme-memory-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        root_ = name;
        write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:   1 kB\nMemAvailable:    6291456 kB\n");
    }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
    ~Machine() { fs::remove_all(root_); }

    void write(const std::string& file, const std::string& text) const {
        fs::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text;
    }
    void group(const std::string& path, size_t limit_mib, size_t usage_mib, const std::string& stat = "") const {
        write("sys/fs/cgroup" + path + "/memory.max", std::to_string(limit_mib * kMib) + "\n");
        write("sys/fs/cgroup" + path + "/memory.current", std::to_string(usage_mib * kMib) + "\n");
        write("sys/fs/cgroup" + path + "/memory.stat", stat);
    }
    HostMemory memory() const { return host_memory(root_); }
    const fs::path& root() const { return root_; }

  private:
    fs::path root_;
};

TEST(HostMemory, IsTheMachinesWithoutGroups) {
    const Machine m;

    EXPECT_EQ(m.memory().total, 8192 * kMib);
    EXPECT_EQ(m.memory().available, 6144 * kMib);
}

TEST(HostMemory, IsTheTightestGroupsLimitLessItsUsage) {
    const Machine m;
    m.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    m.group("/slurm/job_7/step_0", 5000, 100);
    EXPECT_EQ(m.memory().available, 4900 * kMib);

    m.group("/slurm/job_7", 4000, 1000);  // the job's other steps count here
    EXPECT_EQ(m.memory().total, 4000 * kMib);
    EXPECT_EQ(m.memory().available, 3000 * kMib);

    m.write("sys/fs/cgroup/slurm/memory.max", "max\n");
    EXPECT_EQ(m.memory().available, 3000 * kMib);
    m.group("", 2000, 2500);  // a container's own group, at the top
    EXPECT_EQ(m.memory().available, 0u);
}

TEST(HostMemory, TakesPageCacheForFree) {
    const Machine m;
    m.write("proc/self/cgroup", "0::/\n");
    m.group(
        "", 1000, 900,
        "anon 5\ninactive_file " + std::to_string(600 * kMib) + "\nactive_file " + std::to_string(100 * kMib) + "\n");

    EXPECT_EQ(m.memory().available, 800 * kMib);
}

TEST(HostMemory, ReadsTheOldHierarchyToo) {
    const Machine m;
    m.write("proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/a/b\n1:cpuset:/a/b\n0::/\n");
    const auto old = [&](const std::string& path, const std::string& limit, const std::string& usage) {
        m.write("sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes", limit);
        m.write("sys/fs/cgroup/memory" + path + "/memory.usage_in_bytes", usage);
    };
    old("/a/b", "9223372036854771712\n", "500\n");  // what the kernel writes for no limit
    EXPECT_EQ(m.memory().available, 6144 * kMib);
    old("", std::to_string(3000 * kMib), std::to_string(1000 * kMib));
    m.write("sys/fs/cgroup/memory/memory.stat",
            "inactive_file 7\ntotal_inactive_file " + std::to_string(50 * kMib) + "\n");

    EXPECT_EQ(m.memory().available, 2050 * kMib);
}

TEST(HostMemory, IsThatOfThisMachineByDefault) {
    EXPECT_GT(host_memory().available, 0u);
    EXPECT_GE(host_memory().total, host_memory().available);
}

TEST(LeftToRank, IsAnEqualShareLessWhatTheRankHas) {
    EXPECT_EQ(left_to_rank(/*at_start=*/100, /*now=*/100, /*used=*/0, /*ranks=*/1), 100u);
    EXPECT_EQ(left_to_rank(100, 100, 30, 1), 70u) << "nothing of it is touched yet";
    EXPECT_EQ(left_to_rank(100, 60, 30, 1), 60u) << "others have taken some";
    EXPECT_EQ(left_to_rank(100, 100, 0, 4), 25u);
    EXPECT_EQ(left_to_rank(100, 25, 5, 4), 20u) << "the peers' share is taken, this rank's is not";
    EXPECT_EQ(left_to_rank(100, 100, 26, 4), 0u);
}

TEST(HostMemory, LockingIsLimitedUnlessOneMayLock) {
    const Machine m;
    EXPECT_EQ(m.memory().lockable, SIZE_MAX);

    m.write("proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\n"
            "Max locked memory         8388608              16777216             bytes\n");
    m.write("proc/self/status", "Name:\ttrireme\nCapEff:\t0000000000000000\n");
    EXPECT_EQ(m.memory().lockable, 8 * kMib);

    m.write("proc/self/status", "Name:\ttrireme\nCapEff:\t000001ffffffffff\n");
    EXPECT_EQ(m.memory().lockable, SIZE_MAX);

    m.write("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
    m.write("proc/self/status", "Name:\ttrireme\nCapEff:\t0000000000000000\n");
    EXPECT_EQ(m.memory().lockable, SIZE_MAX);
}

TEST(HostMemory, AddressesAreLimitedByProcess) {
    const Machine m;
    EXPECT_EQ(m.memory().mappable, SIZE_MAX);

    m.write("proc/self/status", "Name:\ttrireme\nVmSize:\t  102400 kB\nVmData:\t   20480 kB\n");
    const auto limits = [&](const std::string& data, const std::string& addresses) {
        m.write("proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n"
                "Max data size             " +
                    data +
                    "            unlimited            bytes\n"
                    "Max address space         " +
                    addresses + "            unlimited            bytes\n");
        return m.memory().mappable;
    };
    EXPECT_EQ(limits("unlimited", "unlimited"), SIZE_MAX);
    EXPECT_EQ(limits("unlimited", std::to_string(500 * kMib)), 400 * kMib);
    EXPECT_EQ(limits(std::to_string(120 * kMib), std::to_string(500 * kMib)), 100 * kMib);
    EXPECT_EQ(limits("unlimited", std::to_string(50 * kMib)), 0u);
    EXPECT_EQ(m.memory().available, 6144 * kMib);  // the machine's memory: the limits apply to this process alone
}

TEST(HostMemory, SaysWhatSpeaksAgainstPinning) {
    const HostMemory m{.total = 900 * kMib, .available = 500 * kMib, .lockable = 8 * kMib};
    EXPECT_EQ(pinning_obstacle(8 * kMib, m), "");
    EXPECT_EQ(pinning_obstacle(9 * kMib, m),
              "this process may lock 8.0 MiB: raise ulimit -l (in containers: --ulimit memlock=-1)");
    EXPECT_EQ(pinning_obstacle(501 * kMib, m),
              "500.0 MiB are available: free memory, raise the container's limit, or use a smaller context (-c)");
}

TEST(Pages, AreZeroOnEveryThread) {
    constexpr size_t kBytes = 5 * kMib + 4097;
    for (const int threads : {1, 3, 64}) {
        auto* data = static_cast<char*>(map_pages(kBytes));
        ASSERT_NE(data, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4096, 0u);
        touch_pages(data, kBytes, /*node=*/0, threads);
        EXPECT_TRUE(std::all_of(data, data + page_bytes(kBytes), [](char c) { return c == 0; }));
        std::vector<unsigned char> there(page_bytes(kBytes) / 4096);
        ASSERT_EQ(::mincore(data, page_bytes(kBytes), there.data()), 0);
        EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](unsigned char c) { return (c & 1) != 0; }));
        unmap_pages(data, kBytes);
    }
}

TEST(Pages, MoreThanAnAddressSpaceAreRefused) {
    EXPECT_EQ(map_pages(SIZE_MAX / 4), nullptr);
}

TEST(Pages, TheNodeOfACardIsItsBuss) {
    const Machine m;
    EXPECT_EQ(node_of_pci("0000:C1:00.0", m.root()), -1);
    m.write("sys/bus/pci/devices/0000:c1:00.0/numa_node", "1\n");
    EXPECT_EQ(node_of_pci("0000:C1:00.0", m.root()), 1);
    m.write("sys/bus/pci/devices/0000:c1:00.0/numa_node", "-1\n");
    EXPECT_EQ(node_of_pci("0000:C1:00.0", m.root()), -1);
}

}  // namespace
}  // namespace trireme::test
