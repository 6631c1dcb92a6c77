#pragma once
/// Standard streams: protection against stdin, stdout or stderr that is closed when the program starts.

namespace trireme {

/// Opens a substitute for each of descriptors 0, 1 and 2 that is closed. Otherwise the next opened file would get its
/// number: a model would be read as the prompt, or text would be written into it. The substitute fails when read as
/// stdin or written as stdout, and discards what is written to stderr. Call this first. Errors: Exit::kOs.
void hold_standard_streams();

/// Checks that stdout is open for writing, before work begins. Errors: Exit::kIo.
void require_stdout();

}  // namespace trireme
