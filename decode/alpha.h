#pragma once
/// How often a proposed token stays, if it is as likely at every place: the alpha of Leviathan et al. and of TriForce.

#include <cstdint>
#include <span>

namespace trireme {

/// Of chains, of which proposed_at[d] had a token behind d others, `accepted` tokens stayed: solves
/// accepted = sum over d of proposed_at[d] alpha^(d + 1), as a token stays only behind others that do. Where all rounds
/// propose g tokens and a fraction f of them stays, that is alpha^(g + 1) - (1 + g f) alpha + g f = 0. From 0 to 1; 0
/// where nothing was proposed.
double alpha_of(int64_t accepted, std::span<const int64_t> proposed_at);

}  // namespace trireme
