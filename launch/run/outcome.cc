#include "launch/run/outcome.h"

#include <new>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

#include "dist/comm.h"
#include "runtime/env.h"

namespace trireme {

Outcome attempt(const std::function<void()>& work) {
    try {
        work();
        return {};
    } catch (const Stopped& s) {
        return {s.status, "", /*agreed=*/true};
    } catch (const AgreedError& e) {
        return {static_cast<int>(e.code()), e.what(), /*agreed=*/true};
    } catch (const Error& e) {
        return {static_cast<int>(e.code()), e.what()};
    } catch (const std::bad_alloc&) {
        rlimit addresses = {};
        const bool limited = ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
        return {static_cast<int>(Exit::kOs),
                limited ? fmt::format("out of memory on the host: this process may have {:.1f} MiB of it (ulimit -v), "
                                      "program and libraries included: raise that, or take a smaller -c or more ranks",
                                      static_cast<double>(addresses.rlim_cur) / (1 << 20))
                        : "out of memory on the host: a smaller -c, or more ranks, need less of it"};
    } catch (const std::system_error& e) {
        if (e.code() != std::errc::resource_unavailable_try_again) {
            return {static_cast<int>(Exit::kInternal), fmt::format("unexpected: {}", e.what())};
        }
        return {
            static_cast<int>(Exit::kOs),
            fmt::format("the system gives no further thread ({}): raise ulimit -u or -v, or use fewer (-t)", e.what())};
    } catch (const std::exception& e) {
        return {static_cast<int>(Exit::kInternal), fmt::format("unexpected: {}", e.what())};
    }
}

void print_error(const std::string& message) {
    constexpr size_t kLongest = 4000;
    // As log lines: only the level word has a colour.
    const bool colored = ::isatty(STDERR_FILENO) == 1 && !env().no_color;
    std::string line = colored ? "trireme: \033[31;1merror:\033[m " : "trireme: error: ";
    for (const char c : message.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            line += fmt::format("\\x{:02x}", byte);
        } else {
            line += c;
        }
    }
    if (message.size() > kLongest) line += "...";
    line += '\n';
    // One write, so that lines of several processes do not mix. If stderr is closed, nothing can be done about it.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace trireme
