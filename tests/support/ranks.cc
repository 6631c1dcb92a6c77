#include "tests/support/ranks.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/thread_comm.h"

namespace trireme::test {

void run_ranks(int size, const std::function<void(Comm&)>& body) {
    std::mutex mutex;
    std::exception_ptr first;
    const auto keep = [&](std::exception_ptr e) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::move(e);
    };
    std::vector<std::thread> threads;
    for (auto& owned : make_thread_comms(size)) {
        threads.emplace_back([&, comm = std::move(owned)]() mutable {
            try {
                body(*comm);
            } catch (const std::exception& e) {
                keep(std::current_exception());
                const auto* error = dynamic_cast<const Error*>(&e);
                try {
                    comm->abort(error ? error->code() : Exit::kInternal);
                } catch (const Error&) {  // a thread's abort ends with this error
                }
            }
            comm.reset();
        });
    }
    for (std::thread& t : threads) t.join();
    if (first) std::rethrow_exception(first);
}

}  // namespace trireme::test
