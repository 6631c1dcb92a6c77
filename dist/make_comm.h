#pragma once
/// Which implementation a run gets.

#include <memory>

#include "dist/comm.h"

namespace trireme {

struct CommOptions {
    int ranks = 1;             // how many the launcher started; 0: it did not say, MPI is asked
    int64_t max_elements = 0;  // of an all_reduce: what is allocated at once
};

/// One rank: self, and MPI is neither started nor needed. Several: MPI. Call before starting other threads.
/// Errors: Exit::kUnavailable.
std::unique_ptr<Comm> make_comm(const CommOptions& options);

}  // namespace trireme
