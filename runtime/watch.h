#pragma once
/// What the host looks at when it has waited for a stream: the stream's errors, and those of all it has waited for.

#include <functional>
#include <memory>
#include <vector>

namespace trireme {

/// Streams wait for each other in circles and end before each other: a watch keeps no other alive. One thread uses all.
class Watch {
  public:
    /// `own` throws the stream's error, if there is one.
    explicit Watch(std::function<void()> own) : own_(std::move(own)) {}

    /// What `other` sees, this one sees from now on.
    void follow(const std::shared_ptr<const Watch>& other);
    /// Calls `own` of this one and of all that it follows, directly or not: each once, the nearest first.
    void look() const;

  private:
    std::function<void()> own_;
    std::vector<std::weak_ptr<const Watch>> others_;
};

}  // namespace trireme
