#include "launch/run/once.h"

#include <mutex>
#include <set>
#include <string_view>

#include "runtime/trace.h"

namespace trireme {
namespace {

std::mutex mutex;
std::set<std::string_view> said;

}  // namespace

bool first_time(const char* what) {
    const std::lock_guard lock(mutex);
    return said.insert(what).second;
}

void begin_run() {
    const std::lock_guard lock(mutex);
    said.clear();
    trace::stop();  // of an earlier run with --trace
}

}  // namespace trireme
