#pragma once
/// The manual page (--man), generated from the table of flags.

#include <string>

namespace trireme {

/// Returns trireme(1) in roff with the macros of man(7). It lists every command, and every flag with its spellings,
/// default, variable and commands.
std::string man_page();

}  // namespace trireme
