#pragma once
/// Lines that appear once in a run.

namespace trireme {

/// Whether this is the first call with these words since begin_run().
bool first_time(const char* what);
/// Forgets all calls of first_time().
void begin_run();

}  // namespace trireme
