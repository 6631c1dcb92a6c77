#include "runtime/device.h"

#include <algorithm>
#include <functional>
#include <map>

#include "runtime/cpu/device.h"
#include "runtime/error.h"

namespace trireme {

void Device::account(Space space, ptrdiff_t bytes) {
    const size_t i = static_cast<size_t>(space);
    used_[i] = static_cast<size_t>(static_cast<ptrdiff_t>(used_[i]) + bytes);
    peak_[i] = std::max(peak_[i], used_[i]);
}

namespace {

/// Filled before the first rank starts; ranks of a test are threads that only read it.
std::map<std::string, DeviceMaker, std::less<>>& registered() {
    static std::map<std::string, DeviceMaker, std::less<>> makers;
    return makers;
}

}  // namespace

void register_device(std::string_view backend, DeviceMaker maker) {
    registered().insert_or_assign(std::string(backend), maker);
}

std::unique_ptr<Device> open_device(const std::string& name, int threads, int local_ranks) {
    if (name == "cpu" || name == "auto") return std::make_unique<CpuDevice>(threads, local_ranks);
    const auto found = registered().find(name);
    if (found != registered().end()) return found->second(threads, local_ranks);
    fail(Exit::kUnavailable, "--device {}: this build has cpu only; use --device cpu", name);
}

}  // namespace trireme
