#include "runtime/watch.h"

#include <algorithm>

namespace trireme {

void Watch::follow(const std::shared_ptr<const Watch>& other) {
    std::erase_if(others_, [&](const std::weak_ptr<const Watch>& w) { return w.expired() || w.lock() == other; });
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
