#pragma once
/// A file of run records (--record): a store (model/files/store/sets.h) of kind "run record". Run i has the sets
/// runs/000i/about, a JSON text, and beside it whatever tables its format has; runs are copied as they are, so that a
/// file may hold runs of several versions of this program.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/run/crew.h"
#include "model/files/store/reader.h"

namespace trireme {

/// A data set of a run, named within it ("rounds"), with its bytes.
struct RecordSet {
    StoreSet set;
    std::span<const std::byte> bytes;
};

/// Opens a file of run records and confirms every byte of it. Errors: as open_file, Exit::kData for what is none, or is
/// damaged.
std::unique_ptr<StoreReader> open_record(const std::string& path);

/// Whether append_run() will find what it needs there. Errors: as open_record; Exit::kCantCreate, kPermission where
/// there is no file and none can be made.
void probe_record(const std::string& path);

/// Adds a run; `about` is an object. The old file, or the new one with one run more, is there at every instant,
/// whatever ends this process. Another process that appends holds the file: then `waiting` is called several times a
/// second, for `patience` at most. Returns the run's number. Errors: as open_record and PartFile; Exit::kCantCreate
/// where the other process does not finish.
int64_t append_run(const std::string& path, std::string_view about, const std::vector<RecordSet>& sets,
                   std::chrono::milliseconds patience, const StillWaiting& waiting = {});

}  // namespace trireme
