#pragma once
/// Watch: finds the first error of a stream and of all streams that it has waited for. CudaStream::synchronize() calls
/// look(), because a GPU's streams continue after an error.

#include <functional>
#include <memory>
#include <vector>

namespace trireme {

/// Streams wait for each other in cycles and end in any order, so references are weak. One thread uses all watches.
class Watch {
  public:
    /// `own` throws the stream's error, if there is one.
    explicit Watch(std::function<void()> own) : own_(std::move(own)) {}

    /// Includes the errors of `other` from now on.
    void follow(const std::shared_ptr<const Watch>& other);
    /// Calls `own` of this watch and of all watches that it follows, directly or through others: each once, the nearest
    /// first. Watches of destroyed streams are skipped.
    void look() const;

  private:
    std::function<void()> own_;
    std::vector<std::weak_ptr<const Watch>> others_;
};

}  // namespace trireme
