#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launch/program.h"

int main(int argc, char** argv) {
    // If address space is limited (ulimit -v), malloc's heap for each thread would reserve 64 MiB of it.
    if (rlimit addresses = {}; ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
        ::mallopt(M_ARENA_MAX, 1);
    }
    std::vector<std::string> environment;
    for (char** e = environ; *e != nullptr; ++e) environment.emplace_back(*e);
    return trireme::run_program({argv + 1, argv + argc}, environment);
}
