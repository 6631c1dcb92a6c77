#include "runtime/watch.h"

#include <algorithm>

namespace trireme {

void Watch::follow(const std::shared_ptr<const Watch>& other) {
    // Each wait of a stream calls this, almost always with a watch that is followed already.
    const auto known = [&](const std::weak_ptr<const Watch>& w) { return w.lock() == other; };
    if (std::any_of(others_.begin(), others_.end(), known)) return;
    std::erase_if(others_, [](const std::weak_ptr<const Watch>& w) { return w.expired(); });
    others_.push_back(other);
}

void Watch::look() const {
    std::vector<const Watch*> seen = {this};
    for (size_t i = 0; i < seen.size(); ++i) {
        seen[i]->own_();
        for (const std::weak_ptr<const Watch>& other : seen[i]->others_) {
            const Watch* const next = other.lock().get();  // still valid: one thread uses all watches
            if (next != nullptr && std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
        }
    }
}

}  // namespace trireme
