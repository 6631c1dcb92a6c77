#include "launch/run/outcome.h"

#include <new>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

#include "dist/comm.h"
#include "runtime/log.h"

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
    const std::string line =
        fmt::format("trireme: {}{}\n", log::level_word(log::Level::kError), log::printable(message));
    // One write, so that lines of several processes do not mix. If stderr is closed, nothing can be done about it.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace trireme
