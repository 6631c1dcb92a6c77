#include "runtime/watch.h"

#include <algorithm>

namespace trireme {

void Watch::follow(const std::shared_ptr<const Watch>& other) {
    // Every wait of a stream comes here; almost always for one that is followed already.
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
            const Watch* const next = other.lock().get();  // one thread: who is there stays there
            if (next != nullptr && std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
        }
    }
}

}  // namespace trireme
