#pragma once
/// StopText: a filter of generated text. It holds back text that could become a stop string, and cuts at the first one.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class StopText {
  public:
    explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    /// Appends text, and returns the part that is now safe to show.
    std::string push(std::string_view text);
    /// Returns the text that was held back, at the end of the continuation; empty if a stop string was found.
    std::string flush();
    /// True after a stop string; it and the text after it are discarded.
    bool stopped() const { return stopped_; }

  private:
    std::vector<std::string> stops_;
    std::string held_;
    bool stopped_ = false;
};

}  // namespace trireme
