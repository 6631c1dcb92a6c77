#pragma once
/// Registry: functions that make what a module provides (devices, kernels, communicators), by the backend's name. It
/// has no lock: load_cuda_module() or a test fills it before a rank opens its device; afterwards it is only read.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace trireme {

template <class Maker>
class Registry {
  public:
    /// Registers `maker`, a function pointer; replaces an older one of this name.
    void add(std::string_view name, Maker maker) { makers_.insert_or_assign(std::string(name), maker); }
    /// Returns null if no module registered `name`.
    Maker find(std::string_view name) const {
        const auto found = makers_.find(name);
        return found == makers_.end() ? nullptr : found->second;
    }

  private:
    std::map<std::string, Maker, std::less<>> makers_;
};

}  // namespace trireme
