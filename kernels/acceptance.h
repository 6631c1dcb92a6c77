#pragma once
/// Acceptance: accepts one of the tokens that were proposed at a position, or samples another token there. The result
/// has the verifier's distribution p, whatever distributions q the proposals were drawn from. This is the project's
/// only acceptance: the CPU, GPUs, GPUs on the host and the proof in exact fractions (tests/decode) run this function.
///
/// A chain proposes one token. It is accepted with probability min(1, p/q); otherwise a token is drawn from the
/// residual max(0, p - q) (Leviathan et al., ICML 2023). In a tree siblings are drawn one by one, each without the
/// weight of its earlier siblings. They are tried in that order, and each rejection replaces p by the residual (Chen et
/// al., Sequoia, 2024). After a fully accepted chain, p draws the bonus token.

#include <cstdint>

namespace trireme {

/// `place` is a position and what computes it: one thread, or a block of threads that get the same answers.
///
///     Weight, Wide             numbers; a Wide holds the product of two weights, and sums of such products
///     Weight p(i), p_sum()     the verifier's distribution
///     Weight q(c, i), q_sum(c) the distribution that child c was drawn from, without its earlier siblings; at these
///                              q(c, i) may have any value, because they were rejected and p is 0 there
///     int64_t token(c)         child c
///     bool happens(c, a, b)    true with probability min(1, a / b)
///     void become(weigh)       replaces p by weigh(i), up to a common factor
///     int64_t draw(weigh)      an id from the distribution weigh(i); -1 if all weights are 0
///
/// Returns the accepted child; or -1, with the sampled token in `drawn`.
template <class Place>
constexpr int64_t settle(Place& place, int64_t children, int64_t& drawn) {
    using Wide = typename Place::Wide;
    // Weights are never negative: where q is larger the residual is 0.
    const auto residual = [&](int64_t c) {
        return [&place, p_sum = Wide(place.p_sum()), q_sum = Wide(place.q_sum(c)), c](int64_t i) {
            const Wide more = Wide(place.p(i)) * q_sum, less = Wide(place.q(c, i)) * p_sum;
            return more > less ? Wide(more - less) : Wide(0);
        };
    };
    for (int64_t c = 0; c < children; ++c) {
        if (c > 0) place.become(residual(c - 1));
        const int64_t x = place.token(c);
        if (place.happens(c, Wide(place.p(x)) * Wide(place.q_sum(c)), Wide(place.q(c, x)) * Wide(place.p_sum()))) {
            return c;
        }
    }
    const auto whole = [&place](int64_t i) { return Wide(place.p(i)); };
    drawn = children > 0 ? place.draw(residual(children - 1)) : place.draw(whole);
    // Equal distributions reject nothing, so an empty residual is not reached. It is defined all the same.
    if (drawn < 0) drawn = place.draw(whole);
    return -1;
}

}  // namespace trireme
