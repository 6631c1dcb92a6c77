#include "runtime/device.h"

#include <algorithm>
#include <charconv>

#include "runtime/cpu/device.h"
#include "runtime/error.h"

namespace trireme {

void Device::account(Space space, ptrdiff_t bytes) {
    const size_t i = static_cast<size_t>(space);
    used_[i] = static_cast<size_t>(static_cast<ptrdiff_t>(used_[i]) + bytes);
    peak_[i] = std::max(peak_[i], used_[i]);
}

Registry<DeviceMaker>& device_makers() {
    static Registry<DeviceMaker> makers;
    return makers;
}

Registry<DeviceLister>& device_listers() {
    static Registry<DeviceLister> listers;
    return listers;
}

std::unique_ptr<Device> open_device(const std::string& name, const DeviceRequest& request) {
    if (name == "cpu") return std::make_unique<CpuDevice>(request.threads, request.local_ranks);
    const size_t colon = std::min(name.find(':'), name.size());
    const DeviceMaker maker = device_makers().find(std::string_view(name).substr(0, colon));
    require(maker != nullptr, Exit::kUnavailable, "{}: this build has no such device; compute on the CPU", name);
    DeviceRequest wanted = request;
    if (colon < name.size()) {
        const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
        const auto [stop, error] = std::from_chars(begin, end, wanted.index);
        require(error == std::errc() && stop == end && wanted.index >= 0, Exit::kConfig,
                "{}: want a GPU's number after the colon, as in {}:0", name, name.substr(0, colon));
    }
    return maker(wanted);
}

}  // namespace trireme
