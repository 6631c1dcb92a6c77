#pragma once
/// File of run records (--record): a store (model/files/store/sets.h) of kind "run record". Run i has the set
/// runs/000i/about, a JSON text, and tables of its format. Runs are copied unchanged when a run is added, so a file may
/// hold runs of several versions of this program.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/run/rank_group.h"
#include "model/files/store/reader.h"

namespace trireme {

/// A data set of a run with its bytes, which it does not own. The name is relative to the run ("rounds").
struct RecordSet {
    StoreSet set;
    std::span<const std::byte> bytes;
};

/// Opens a file of run records and verifies all its bytes. Errors: as open_file; Exit::kData for other or damaged
/// files.
std::unique_ptr<StoreReader> open_record(const std::string& path);

/// Checks before a run that append_run() can write to `path`: the file is one of run records with room for one more, or
/// can be created. Does nothing for an empty path. Errors: as open_record and PartFile; Exit::kConfig without room.
void probe_record(const std::string& path);

/// Adds a run to the file, or creates it; `about` is a JSON object. However this process ends, `path` is the old file
/// or the new one with one more run. While another process appends to the file, this one waits at most `patience`, and
/// calls `waiting` several times a second. Returns the run's number, from 0. Errors: as open_record and PartFile;
/// Exit::kCantCreate if the other process takes longer.
int64_t append_run(const std::string& path, std::string_view about, const std::vector<RecordSet>& sets,
                   std::chrono::milliseconds patience, const StillWaiting& waiting = {});

}  // namespace trireme
