#include "launch/record/record_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <utility>

#include "launch/report/output.h"
#include "model/files/limits.h"
#include "model/files/store/writer.h"
#include "runtime/part_file.h"

namespace trireme {
namespace {

constexpr std::string_view kRecordKind = "run record", kRuns = "runs/";
constexpr size_t kMostSetsOfRun = 16;
constexpr int64_t kMostRuns = limits::kTensors;  // each has at least one data set

bool is_there(const std::string& path) {
    struct stat st {};
    return ::lstat(path.c_str(), &st) == 0;
}

/// Calls body(bytes) with all bytes of a set, in blocks of about a megabyte. Errors: as reader.read.
template <class Body>
void for_blocks(const StoreReader& reader, const StoreSet& set, const Body& body) {
    std::vector<std::byte> bytes;
    const int64_t step = set.block_rows();
    for (int64_t row = 0; row < set.rows(); row += step) {
        const int64_t n = std::min(step, set.rows() - row);
        bytes.resize(static_cast<size_t>(n) * set.row_bytes());
        reader.read(set, row, n, bytes);
        body(std::span<const std::byte>(bytes));
    }
}

/// Returns the number in "runs/0003/about".
std::optional<int64_t> run_of(std::string_view name) {
    if (!name.starts_with(kRuns)) return std::nullopt;
    int64_t number = -1;
    name.remove_prefix(kRuns.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_run = error == std::errc() && end != name.data() + name.size() && *end == '/';
    return is_run && number >= 0 && number < kMostRuns ? std::optional(number) : std::nullopt;
}

/// The sets of the file except its own "about", which is written again.
std::vector<StoreSet> sets_of_runs(const StoreReader& reader) {
    std::vector<StoreSet> all = reader.sets();
    std::erase_if(all, [](const StoreSet& set) { return set.name == kStoreAbout; });
    return all;
}

void require_room(const std::string& path, size_t sets) {
    require(sets + kMostSetsOfRun <= limits::kTensors, Exit::kConfig,
            "--record {}: has {} data sets, and there is no room for another run; name another file", path, sets);
}

std::unique_ptr<PartFile> hold(const std::string& path, std::chrono::milliseconds patience,
                               const StillWaiting& waiting) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kNap(20);
    const auto until = Clock::now() + patience;
    while (true) {
        if (std::unique_ptr<PartFile> file = PartFile::unless_held(path, IfThere::kReplace)) return file;
        require(Clock::now() < until, Exit::kCantCreate,
                "--record {}: {} has been writing it for {} s: this run is not recorded; see whether that process is "
                "stopped, or name another file",
                path, PartFile::holder(path), std::chrono::duration<double>(patience).count());
        if (waiting) waiting();
        std::this_thread::sleep_for(kNap);
    }
}

}  // namespace

std::unique_ptr<StoreReader> open_record(const std::string& path) {
    auto reader = std::make_unique<StoreReader>(open_file(path), kRecordKind);
    for (const StoreSet& set : reader->sets()) {
        for_blocks(*reader, set, [](std::span<const std::byte>) {});
    }
    return reader;
}

void probe_record(const std::string& path) {
    if (path.empty()) return;
    try {
        // A file held by another run can be written: append_run() waits for that run.
        PartFile::unless_held(path, IfThere::kReplace);
    } catch (const Error& e) {
        fail(e.code(), "--record {}", e.what());
    }
    if (!is_there(path)) return;
    require_room(path, open_record(path)->sets().size());
}

int64_t append_run(const std::string& path, std::string_view about, const std::vector<RecordSet>& sets,
                   std::chrono::milliseconds patience, const StillWaiting& waiting) {
    // The part is held from before the old file is read until the new one has its name, so no other run is lost.
    std::unique_ptr<PartFile> held = hold(path, patience, waiting);
    std::unique_ptr<StoreReader> old;
    std::vector<StoreSet> all;
    if (is_there(path)) {
        old = std::make_unique<StoreReader>(open_file(path), kRecordKind);
        all = sets_of_runs(*old);
    }
    require_room(path, all.size());
    const size_t first = all.size();
    int64_t run = 0;
    for (const StoreSet& set : all) run = std::max(run, run_of(set.name).value_or(-1) + 1);
    const std::string folder = fmt::format("{}{:04}/", kRuns, run);
    const auto add = [&](StoreSet set) {
        set.name = folder + set.name;
        all.push_back(std::move(set));
    };
    add({.name = kStoreAbout, .type = DType::kU8, .shape = {static_cast<int64_t>(about.size())}});
    for (const RecordSet& s : sets) add(s.set);

    StoreWriter writer(std::move(held), std::string(kRecordKind), all,
                       fmt::format(R"({{"format":1,"runs":{}}})", run + 1));
    size_t to = 0;
    for (const StoreSet& set : old ? std::span(old->sets()) : std::span<const StoreSet>()) {
        if (set.name == kStoreAbout) continue;
        for_blocks(*old, set, [&](std::span<const std::byte> bytes) { writer.append(to, bytes); });
        if (waiting) waiting();
        ++to;
    }
    writer.append(first, std::as_bytes(std::span(about)));
    for (size_t i = 0; i < sets.size(); ++i) writer.append(first + 1 + i, sets[i].bytes);
    writer.publish();
    return run;
}

}  // namespace trireme
