#pragma once
/// Standard streams: any of stdin, stdout and stderr may be closed when the program starts.

namespace trireme {

/// Call this first. If descriptor 0, 1 or 2 is closed, the next opened file would get its number: a model would be read
/// as the prompt, or text would be written into it. A substitute takes the number instead. It fails when read as stdin
/// or written as stdout, and discards what is written to stderr. Errors: Exit::kOs.
void hold_standard_streams();

/// Errors: Exit::kIo if stdout is not writable.
void require_stdout();

}  // namespace trireme
