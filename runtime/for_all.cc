#include "runtime/for_all.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>
#include <vector>

namespace trireme {

void for_all(size_t n, size_t most, const std::function<void(size_t)>& body) {
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    std::exception_ptr error;
    size_t failed = n;
    const auto work = [&] {
        for (size_t i = next++; i < n; i = next++) {
            try {
                body(i);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (i < failed) error = std::current_exception();
                failed = std::min(failed, i);
                next = n;
            }
        }
    };
    {
        std::vector<std::jthread> others;
        cpu_set_t cpus;  // those that this rank is bound to
        const int own = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
        const size_t threads = std::min({n, most, static_cast<size_t>(own)});
        try {
            while (others.size() + 1 < threads) others.emplace_back(work);
        } catch (const std::system_error&) {  // no further thread can start: the existing ones do the work
        }
        work();
    }
    if (error) std::rethrow_exception(error);
}

}  // namespace trireme
