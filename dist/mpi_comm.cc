#include "dist/mpi_comm.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <mpi.h>

#include "dist/mpi_exchange.h"
#include "dist/ordered_sum.h"
#include "dist/peer_watch.h"
#include "dist/rank_env.h"
#include "dist/shared_memory.h"
#include "dist/shared_sums.h"
#include "dist/slices.h"
#include "runtime/env.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

// Up to `whole` floats every rank adds everything. Beyond, each adds a slice and gathers the others' (half the traffic
// at W = 4, one more round trip). Both take equal time at 32 KiB with 2 and 4 ranks in shared memory; bench_comm.
constexpr Slicing kSlicing = {.whole = 8192, .unit = 16};  // floats: slices begin on cache lines

/// Ends the process in 2 s, even if the calling thread hangs.
void leave_soon(Exit code) {
    std::thread([code] {
        std::this_thread::sleep_for(std::chrono::seconds(2));
        _exit(static_cast<int>(code));
    }).detach();
}

/// Returns whether there are more ranks than cores here: mpirun reports it, or the numbers show it.
bool crowded() {
    const char* oversubscribed = std::getenv("OMPI_MCA_mpi_oversubscribe");
    return (oversubscribed != nullptr && std::strcmp(oversubscribed, "1") == 0) ||
           rank_env(std::getenv).local_size > sysconf(_SC_NPROCESSORS_ONLN);
}

/// Tasks of srun can find each other through PMIx only; MPI's own message about it has 20 lines.
void require_launcher() {
    const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
    const bool by_other = std::getenv("PMIX_RANK") != nullptr || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
    require(tasks == nullptr || std::atoi(tasks) <= 1 || by_other, Exit::kUsage,
            "started by srun as {} tasks that cannot find each other: use srun --mpi=pmix, or mpirun", tasks);
}

/// The lifetime of MPI: MPI_Init_thread to MPI_Finalize.
class Library {
  public:
    Library(Watchdog& watchdog, const Watchdog::Fire& fire) : watchdog_(watchdog) {
        require_launcher();
        // 2.4 us instead of 6 for 16 KiB between two ranks: cross-memory attach costs a system call per message.
        constexpr const char* kSingleCopy = "OMPI_MCA_btl_vader_single_copy_mechanism";
        setenv(kSingleCopy, "none", /*overwrite=*/0);
        // Starting processes on a busy node takes longer than messages between running ones.
        Watchdog start_up(std::max(env().timeout_s, 60.0), fire);
        const Watchdog::Watch watch(start_up, Watchdog::kControl, "MPI_Init_thread");
        int provided = MPI_THREAD_SINGLE;
        mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
        mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        require(provided >= MPI_THREAD_SERIALIZED, Exit::kUnavailable,
                "this MPI allows calls from one thread only (level {}), want MPI_THREAD_SERIALIZED", provided);
    }
    ~Library() {
        const Watchdog::Watch watch(watchdog_, Watchdog::kControl, "MPI_Finalize");
        MPI_Finalize();
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

  private:
    Watchdog& watchdog_;
};

}  // namespace

class MpiComm::Impl {
  public:
    explicit Impl(int ranks)
        : fire_([this](const char* call, uint64_t sequence, double s) { hang(call, sequence, s); }),
          watchdog_(env().timeout_s, fire_),
          library_(watchdog_, fire_),
          device_(mutex_, watchdog_, Watchdog::kDevice, crowded()),
          control_(mutex_, watchdog_, Watchdog::kControl, crowded()) {
        rank_ = device_.rank();
        size_ = device_.size();
        require(ranks == 0 || ranks == size_, Exit::kUnavailable,
                "the launcher started {} ranks, MPI sees {}: start them with this MPI's own mpirun, or with "
                "srun --mpi=pmix",
                ranks, size_);
        const std::vector<std::string> names = gather(process_name());
        peers_.emplace(names, [this](int rank) { died(rank); });
        share(names);
    }

    int rank() const { return rank_; }
    int size() const { return size_; }
    const char* name() const { return name_.c_str(); }

    void all_reduce(float* x, int64_t n);
    void all_gather(char* out, const char* part, size_t bytes);
    std::vector<std::string> gather(const std::string& mine);
    [[noreturn]] void abort(Exit code);

  private:
    Slice slice(int64_t n, int rank) const { return kSlicing.of(n, rank, size_); }
    void share(const std::vector<std::string>& names);
    void grow(int64_t elements);
    [[noreturn]] void hang(const char* call, uint64_t sequence, double seconds);
    [[noreturn]] void died(int rank) const;

    int rank_ = rank_env(std::getenv).rank, size_ = 0;  // until MPI reports them
    std::mutex mutex_;
    Watchdog::Fire fire_;
    Watchdog watchdog_;
    Library library_;
    MpiExchange device_, control_;
    std::string name_;
    std::optional<SharedMemory> memory_;
    std::optional<SharedSums> sums_;  // of ranks that share memory: device_ is idle then
    std::vector<float> scratch_;      // data from peers, rank by rank
    std::optional<PeerWatch> peers_;  // destroyed before MPI_Finalize, in which all ranks wait for each other
};

/// Makes device calls use shared memory, if all ranks can share it.
void MpiComm::Impl::share(const std::vector<std::string>& names) {
    try {
        memory_.emplace(
            rank_, names, SharedSums::bytes_of_rank(), [this](const std::string& mine) { return gather(mine); },
            [] { require(env().shm_sums.value_or(true), Exit::kConfig, "TRIREME_SHM_SUMS=0"); });
        sums_.emplace(memory_->data(), rank_, size_, watchdog_, crowded());
        name_ = "shared memory";
    } catch (const AgreedError& why_not) {
        name_ = fmt::format("mpi ({})", why_not.what());
    }
}

/// Makes room for the data that an all_reduce of `elements` receives, and for all shorter ones.
void MpiComm::Impl::grow(int64_t elements) {
    const int64_t whole = size_ * std::min(elements, kSlicing.whole);
    const int64_t slices = size_ * slice(elements, 0).count;
    const size_t room = static_cast<size_t>(std::max(whole, slices));
    if (scratch_.size() < room) scratch_.resize(room);
}

void MpiComm::Impl::all_reduce(float* x, int64_t n) {
    if (sums_) return sums_->all_reduce(x, n);
    constexpr const char* kCall = "all_reduce";
    const auto message = [](float* data, int64_t count) {
        return Message{data, static_cast<size_t>(count) * sizeof(float)};
    };
    grow(n);
    const Slice mine = slice(n, rank_);
    const auto received = [&](int r) { return scratch_.data() + r * mine.count; };

    device_.run(
        kCall, [&](int q) { return message(x + slice(n, q).begin, slice(n, q).count); },
        [&](int q) { return message(received(q), mine.count); });
    float* sum = x + mine.begin;
    ordered_sum(sum, size_, mine.count, [&](int r) { return r == rank_ ? sum : received(r); });
    if (n <= kSlicing.whole) return;

    device_.run(
        kCall, [&](int) { return message(sum, mine.count); },
        [&](int q) { return message(x + slice(n, q).begin, slice(n, q).count); });
}

void MpiComm::Impl::all_gather(char* out, const char* part, size_t bytes) {
    if (sums_) return sums_->all_gather(out, part, bytes);
    char* own = out + static_cast<size_t>(rank_) * bytes;
    if (own != part) std::memcpy(own, part, bytes);
    device_.run(
        "all_gather",
        [&](int) {
            return Message{own, bytes};
        },
        [&](int q) {
            return Message{out + static_cast<size_t>(q) * bytes, bytes};
        });
}

std::vector<std::string> MpiComm::Impl::gather(const std::string& mine) {
    constexpr const char* kCall = "a control call";
    std::vector<uint64_t> sizes(static_cast<size_t>(size_), mine.size());
    const auto size_from = [&](int r) { return Message{&sizes[index(r)], sizeof(uint64_t)}; };
    control_.run(
        kCall, [&](int) { return size_from(rank_); }, size_from);

    std::vector<std::string> all;
    all.reserve(sizes.size());
    for (const uint64_t bytes : sizes) all.emplace_back(bytes, '\0');
    all[index(rank_)] = mine;
    const auto bytes_from = [&](int r) {
        std::string& s = all[index(r)];
        return Message{s.data(), s.size()};
    };
    control_.run(
        kCall, [&](int) { return bytes_from(rank_); }, bytes_from);
    return all;
}

void MpiComm::Impl::abort(Exit code) {
    leave_soon(code);
    std::fflush(nullptr);
    int started = 0;
    MPI_Initialized(&started);
    // mpirun ends the run when a rank exits with an error code. MPI_Abort makes Open MPI 4's mpirun crash (13 of 240
    // runs with a stopped rank) or hang (3); without it, none of 240 did.
    const bool by_mpirun = rank_env(std::getenv).launcher == "mpirun";
    // Without the mutex: the thread that holds it may be the one that hangs. MPI_Abort does not return.
    if (started && !by_mpirun) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    _exit(static_cast<int>(code));
}

void MpiComm::Impl::hang(const char* call, uint64_t sequence, double seconds) {
    leave_soon(Exit::kUnavailable);
    say_that_it_hangs(rank_, call, sequence, seconds);
    abort(Exit::kUnavailable);
}

/// Ends this rank, which cannot compute alone. A launcher that also ends the others gets time to do so: Open MPI's
/// sends SIGTERM after a second, which a run without output answers with its own line, and SIGKILL after two.
void MpiComm::Impl::died(int rank) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    log::warn("rank {} ended before the run; this rank also ends", rank);
    _exit(static_cast<int>(Exit::kUnavailable));
}

MpiComm::MpiComm(int ranks) : impl_(std::make_unique<Impl>(ranks)) {}

MpiComm::~MpiComm() {
    if (std::uncaught_exceptions() > 0) impl_->abort(Exit::kInternal);
}

int MpiComm::rank() const {
    return impl_->rank();
}

int MpiComm::size() const {
    return impl_->size();
}

const char* MpiComm::name() const {
    return impl_->name();
}

void MpiComm::abort(Exit code) {
    impl_->abort(code);
}

void MpiComm::do_all_reduce(Stream& stream, const Tensor& x) {
    stream.call_host("all_reduce", x.bytes(),
                     [impl = impl_.get(), data = static_cast<float*>(x.data()), n = x.shape().elements()] {
                         impl->all_reduce(data, n);
                     });
}

void MpiComm::do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) {
    stream.call_host(
        "all_gather", out.bytes(),
        [impl = impl_.get(), to = static_cast<char*>(out.data()), from = static_cast<const char*>(part.data()),
         bytes = part.bytes()] { impl->all_gather(to, from, bytes); });
}

std::vector<std::string> MpiComm::do_gather(const std::string& mine) {
    return impl_->gather(mine);
}

}  // namespace trireme
