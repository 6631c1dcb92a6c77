#pragma once
/// stdin, stdout and stderr as the program finds them: any of them may have been closed by who started it.

namespace trireme {

/// Call first of all. Where descriptor 0, 1 or 2 is closed, the next file to be opened would get its number: a model
/// would be read as the prompt, or text would be written into it. A stand-in takes the number: it refuses to be read
/// as stdin and to be written as stdout, and swallows what is written to stderr. Errors: Exit::kOs.
void hold_standard_streams();

/// Errors: Exit::kIo, if nothing can be written there.
void require_stdout();

}  // namespace trireme
