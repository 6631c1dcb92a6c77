#include <cstdio>
#include <exception>
#include <string>
#include <unistd.h>
#include <vector>

#include "launch/command_line.h"
#include "launch/help.h"
#include "runtime/error.h"

int main(int argc, char** argv) {
    using namespace trireme;
    try {
        const std::vector<std::string> words(argv + 1, argv + argc);
        std::vector<std::string> environment;
        for (char** e = environ; *e != nullptr; ++e) environment.emplace_back(*e);
        const Invocation call = parse_command_line(words, environment);
        if (call.what == Invocation::What::kHelp)
            std::fputs(help_text(call.command, call.help_keyword).c_str(), stdout);
        if (call.what == Invocation::What::kVersion) std::fputs(version_text().c_str(), stdout);
        return 0;
    } catch (const Error& e) {
        std::fprintf(stderr, "trireme: error: %s\n", e.what());
        return static_cast<int>(e.code());
    }
}
