#include "decode/suffix_automaton.h"

#include "runtime/index.h"

namespace trireme {
namespace {

uint64_t key_of(int32_t state, int32_t token) {
    return uint64_t{static_cast<uint32_t>(state)} << 32 | static_cast<uint32_t>(token);
}

}  // namespace

void SuffixAutomaton::clear() {
    states_.assign(1, {});
    edges_.clear();
    edge_of_.clear();
    last_ = 0;
}

int32_t SuffixAutomaton::add_state(int32_t length) {
    states_.push_back({.length = length});
    return static_cast<int32_t>(states_.size()) - 1;
}

int32_t SuffixAutomaton::find_edge(int32_t state, int32_t token) const {
    const auto found = edge_of_.find(key_of(state, token));
    return found == edge_of_.end() ? -1 : found->second;
}

void SuffixAutomaton::add_edge(int32_t state, int32_t token, int32_t to) {
    State& from = states_[index(state)];
    const auto edge = static_cast<int32_t>(edges_.size());
    edges_.push_back({.token = token, .to = to, .next = from.edges});
    edge_of_[key_of(state, token)] = edge;
    from.edges = edge;
}

/// Makes a state of the parts that `state`, at most one token longer, and `edge` give, and returns it: these parts now
/// have an occurrence that longer ones of the edge's state do not have.
int32_t SuffixAutomaton::split(int32_t state, int32_t edge) {
    const int32_t whole = edges_[index(edge)].to, token = edges_[index(edge)].token;
    const int32_t shorter = add_state(states_[index(state)].length + 1);
    for (int32_t e = states_[index(whole)].edges; e >= 0; e = edges_[index(e)].next) {
        const Edge copied = edges_[index(e)];
        add_edge(shorter, copied.token, copied.to);
        if (e == states_[index(whole)].follower) states_[index(shorter)].follower = states_[index(shorter)].edges;
    }
    states_[index(shorter)].count = states_[index(whole)].count;
    states_[index(shorter)].followed = states_[index(whole)].followed;
    states_[index(shorter)].link = states_[index(whole)].link;
    states_[index(whole)].link = shorter;
    for (int32_t s = state; s >= 0; s = states_[index(s)].link) {
        const int32_t e = find_edge(s, token);
        if (e < 0 || edges_[index(e)].to != whole) break;
        edges_[index(e)].to = shorter;
    }
    return shorter;
}

void SuffixAutomaton::append(int32_t token) {
    const int32_t before = last_, added = add_state(states_[index(last_)].length + 1);
    int32_t s = before;
    for (; s >= 0 && find_edge(s, token) < 0; s = states_[index(s)].link) add_edge(s, token, added);
    if (s < 0) {
        states_[index(added)].link = 0;
    } else {
        const int32_t edge = find_edge(s, token), to = edges_[index(edge)].to;
        const bool exact = states_[index(to)].length == states_[index(s)].length + 1;
        states_[index(added)].link = exact ? to : split(s, edge);
    }
    last_ = added;
    count(before, token);
}

/// Counts the occurrence of `token` after `state` and after the shorter ends of the text.
void SuffixAutomaton::count(int32_t state, int32_t token) {
    int32_t counted = -1;
    for (int i = 0; state >= 0 && i < kMostCounted; ++i, state = states_[index(state)].link) {
        const int32_t edge = find_edge(state, token), to = edges_[index(edge)].to;
        if (to != counted) ++states_[index(to)].count;
        counted = to;
        State& from = states_[index(state)];
        ++from.followed;
        if (from.follower < 0 || states_[index(to)].count >= states_[index(edges_[index(from.follower)].to)].count) {
            from.follower = edge;
        }
    }
}

SuffixAutomaton::Match SuffixAutomaton::next(Match match, int32_t token) const {
    for (;;) {
        if (const int32_t edge = find_edge(match.state, token); edge >= 0) {
            return {.state = edges_[index(edge)].to, .length = match.length + 1};
        }
        if (match.state == 0) return {};
        match.state = states_[index(match.state)].link;
        match.length = states_[index(match.state)].length;
    }
}

SuffixAutomaton::Match SuffixAutomaton::repeated() const {
    if (last_ == 0) return {};
    const int32_t state = states_[index(last_)].link;
    return {.state = state, .length = states_[index(state)].length};
}

SuffixAutomaton::Follower SuffixAutomaton::follower(Match match) const {
    while (match.state > 0 && states_[index(match.state)].follower < 0) {
        match.state = states_[index(match.state)].link;
        match.length = states_[index(match.state)].length;
    }
    const State& from = states_[index(match.state)];
    if (from.follower < 0) return {};
    const Edge& edge = edges_[index(from.follower)];
    return {.token = edge.token,
            .count = states_[index(edge.to)].count,
            .of = from.followed,
            .after = {.state = edge.to, .length = match.length + 1}};
}

}  // namespace trireme
