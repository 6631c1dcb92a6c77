#pragma once
/// Acceptance: which of the tokens proposed behind a place stays, or which other token stands there, such that what
/// stands there has the verifier's law p, whatever the laws q that the proposals were drawn from. The only acceptance
/// of the project: the CPU, GPUs, GPUs on the host and the proof in exact fractions (tests/decode) run this body.
///
/// A chain proposes one token: it stays with probability min(1, p/q), else a token is drawn from the residual
/// max(0, p - q) (Leviathan et al., ICML 2023). In a tree siblings are drawn one by one, each from the law without its
/// elders; they are tried in that order, and each refusal leaves the residual in p's place (Chen et al., Sequoia,
/// 2024). Without proposals, the bonus behind a chain of which all has stayed: p draws.

#include <cstdint>

namespace trireme {

/// `place` stands for the place and for whoever computes (one thread, a block of threads; all get the same answers):
///
///     Weight, Wide             numbers; a Wide holds the product of two weights, and sums of such
///     Weight p(i), p_sum()     the verifier's law
///     Weight q(c, i), q_sum(c) the law that child c was drawn from; without its elders, but at these q(c, i) may be
///                              anything: they have been refused, and p has nothing there any more
///     int64_t token(c)         child c
///     bool happens(c, a, b)    with probability min(1, a / b)
///     void become(weigh)       p is what weigh(i) says from now on, up to a common factor
///     int64_t draw(weigh)      an id with the law of weigh(i); -1 where all weigh nothing
///
/// Returns the child that stays, or -1; then `drawn` stands there.
template <class Place>
constexpr int64_t settle(Place& place, int64_t children, int64_t& drawn) {
    using Wide = typename Place::Wide;
    // No weight is negative: what q has more of weighs nothing.
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
    // Two laws that are equal leave no residual, and refuse nothing: this is not reached. It is defined all the same.
    if (drawn < 0) drawn = place.draw(whole);
    return -1;
}

}  // namespace trireme
