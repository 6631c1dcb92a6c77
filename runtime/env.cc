#include "runtime/env.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

#include "runtime/error.h"

namespace trireme {
namespace {

std::string get(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

Env read() {
    Env e;
    if (const std::string s = get("TRIREME_TIMEOUT_S"); !s.empty()) {
        char* end = nullptr;
        errno = 0;
        const double x = std::strtod(s.c_str(), &end);
        require(errno == 0 && *end == '\0' && std::isfinite(x) && x > 0, Exit::kConfig,
                "TRIREME_TIMEOUT_S='{}': want a positive number of seconds", s);
        e.timeout_s = x;
    }
    if (const std::string s = get("TRIREME_LOG"); !s.empty()) {
        require(s == "all" || s == "rank0", Exit::kConfig, "TRIREME_LOG='{}': want all or rank0", s);
        e.log_all = s == "all";
    }
    if (const std::string s = get("TRIREME_SHM_SUMS"); !s.empty()) {
        require(s == "0" || s == "1", Exit::kConfig, "TRIREME_SHM_SUMS='{}': want 0 or 1", s);
        e.shm_sums = s == "1";
    }
    if (const std::string s = get("TRIREME_PDL"); !s.empty()) {
        require(s == "0" || s == "1", Exit::kConfig, "TRIREME_PDL='{}': want 0 or 1", s);
        e.dependent_launch = s == "1";
    }
    return e;
}

}  // namespace

const Env& env() {
    static const Env e = read();
    return e;
}

bool no_color() {
    return !get("NO_COLOR").empty();
}

}  // namespace trireme
