#pragma once
/// Alpha: the probability that a proposed token is accepted, assumed equal at every depth (Leviathan et al.; TriForce).

#include <cstdint>
#include <span>

namespace trireme {

/// Estimates alpha from chains of proposed tokens: proposed_at[d] of them have a token at depth d, from 0, and
/// `accepted` counts accepted tokens of all depths. Solves accepted = sum over d of proposed_at[d] alpha^(d + 1), since
/// a token is accepted only if all before it are. If all rounds propose g tokens and a fraction f is accepted, this is
/// alpha^(g + 1) - (1 + g f) alpha + g f = 0. Returns a value from 0 to 1; 0 if no token was accepted.
double alpha_of(int64_t accepted, std::span<const int64_t> proposed_at);

}  // namespace trireme
