#pragma once
/// Registry: what modules provide, by name. It is filled before the first rank starts, and only read afterwards.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace trireme {

template <class Maker>
class Registry {
  public:
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
