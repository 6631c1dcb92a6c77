#include "launch/run/data_choice.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/random.h"

namespace trireme {

std::vector<int64_t> chosen(int64_t n, const DataChoice& choice, std::string_view where, std::string_view unit) {
    require(n == 0 || choice.skip < n, Exit::kConfig, "--skip {}: {} has {} {}, which leaves none; skip fewer",
            choice.skip, where, n, unit);
    const int64_t left = std::max<int64_t>(0, n - choice.skip);
    const int64_t end = std::min(n, choice.skip) + (choice.limit == 0 ? left : std::min(choice.limit, left));
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = 0; choice.shuffle && i < end; ++i) {  // later elements are not selected
        const DrawKey key = {
            .sample = static_cast<uint32_t>(i), .round = static_cast<uint32_t>(i >> 32), .purpose = Purpose::kShuffle};
        // Below n - i for every n below 2^53: the product of n - i and 1 - 2^-53 is rounded to less than n - i.
        const auto ahead = static_cast<int64_t>(uniform(*choice.shuffle, key) * static_cast<double>(n - i));
        std::swap(order[index(i)], order[index(i + ahead)]);
    }
    return {order.begin() + std::min(n, choice.skip), order.begin() + end};
}

}  // namespace trireme
