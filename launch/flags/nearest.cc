#include "launch/flags/nearest.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

// Optimal string alignment distance; three rows of the edit table suffice.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view wrong, std::span<const std::string> names, size_t most) {
    constexpr size_t kLongest = 64;  // longer names are not compared
    if (wrong.empty() || wrong.size() > kLongest) return "";
    // A user who writes --model-name means --model.
    constexpr size_t kStart = 5;
    std::string best;
    for (const std::string& name : names) {
        const bool starts = name.starts_with("--") && name.size() >= kStart && wrong.starts_with(name) &&
                            wrong.size() > name.size() && name.size() > best.size();
        if (starts && (wrong[name.size()] == '-' || wrong[name.size()] == '_')) best = name;
    }
    if (!best.empty()) return best;
    size_t least = std::min(std::max<size_t>(1, wrong.size() / 4), most) + 1;
    for (const std::string& name : names) {
        const size_t d = distance(wrong, name);
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best;
}

}  // namespace trireme
