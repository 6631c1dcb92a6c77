#pragma once
/// Text as it may be shown: holds back what could still become a stop string, and cuts at the first one.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class StopText {
  public:
    explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    /// What of the text so far has become safe to show.
    std::string push(std::string_view text);
    /// The end: what was held back, unless a stop string was found.
    std::string flush();
    /// A stop string has appeared; it and what follows are gone.
    bool stopped() const { return stopped_; }

  private:
    std::vector<std::string> stops_;
    std::string held_;
    bool stopped_ = false;
};

}  // namespace trireme
