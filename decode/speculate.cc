#include "decode/speculate.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "decode/alpha.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/random.h"
#include "runtime/trace.h"

namespace trireme {

double SpeculationStats::accept_rate() const {
    return proposed > 0 ? static_cast<double>(accepted - rescued) / static_cast<double>(proposed) : 0;
}

double SpeculationStats::accept_len() const {
    return rounds > 0 ? static_cast<double>(accepted + rounds) / static_cast<double>(rounds) : 0;
}

std::optional<double> SpeculationStats::alpha() const {
    if (proposed == 0 || branched) return std::nullopt;
    return alpha_of(accepted - rescued, proposed_at);
}

double SpeculationStats::draft_ms() const {
    return rounds > 0 ? static_cast<double>(draft_ns) * 1e-6 / static_cast<double>(rounds) : 0;
}

double SpeculationStats::verify_ms() const {
    return rounds > 0 ? static_cast<double>(verify_ns) * 1e-6 / static_cast<double>(rounds) : 0;
}

SpeculationStats& SpeculationStats::operator+=(const SpeculationStats& more) {
    rounds += more.rounds;
    asked += more.asked;
    off += more.off;
    proposed += more.proposed;
    accepted += more.accepted;
    siblings += more.siblings;
    rescued += more.rescued;
    draft_ns += more.draft_ns;
    verify_ns += more.verify_ns;
    branched |= more.branched;
    for (size_t d = 0; d < proposed_at.size(); ++d) {
        proposed_at[d] += more.proposed_at[d];
        accepted_at[d] += more.accepted_at[d];
    }
    return *this;
}

SpeculationStats SpeculationStats::operator-(const SpeculationStats& before) const {
    SpeculationStats since = *this;
    since.rounds -= before.rounds;
    since.asked -= before.asked;
    since.off -= before.off;
    since.proposed -= before.proposed;
    since.accepted -= before.accepted;
    since.siblings -= before.siblings;
    since.rescued -= before.rescued;
    since.draft_ns -= before.draft_ns;
    since.verify_ns -= before.verify_ns;
    for (size_t d = 0; d < proposed_at.size(); ++d) {
        since.proposed_at[d] -= before.proposed_at[d];
        since.accepted_at[d] -= before.accepted_at[d];
    }
    return since;
}

Speculate::Speculate(Proposer& inner, Level& verifier, const SamplingParams& sampling, uint64_t seed,
                     const Options& options)
    : inner_(inner),
      text_(verifier, options.sequence),
      sampling_(sampling),
      seed_(seed),
      options_(options),
      name_(fmt::format("{}+{}", inner.name(), options.verifier)) {
    validate(sampling);
    alone_.rows.reserve(kMaxRows);
    proposals_.reserve(kMaxRows);
    alone_.uniforms.reserve(kMaxRows);
    path_.reserve(kMaxRows);
    places_.reserve(kMaxRows);
    accepted_.reserve(kMaxRows);
    uniforms_.reserve(kMaxRows);
    ends_.reserve(kMaxRows);
    origins_.reserve(2 * kMaxRows);
    digested_.reserve(4 * kMaxRows);
}

void Speculate::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    text_.prefill(prompt, progress);
    inner_.prefill(prompt, {});
}

void Speculate::adopt(std::span<const int32_t> prompt) {
    text_.adopt(prompt);
    inner_.prefill(prompt, {});
}

void Speculate::read_on(std::span<const int32_t> text, const Progress& progress) {
    text_.read_on(text, progress);
    inner_.prefill(text, {});
}

void Speculate::begin(uint32_t sample) {
    text_.begin();
    inner_.begin(sample);
    // A round yields at least one token. An inner level has at most `gamma` rounds in each outer round.
    const int64_t rounds = (text_.level().context() - text_.length() + 1) * options_.wanted;
    const size_t room = rounds_.size() + static_cast<size_t>(rounds);
    if (room > rounds_.capacity())
        rounds_.reserve(std::max(room, 2 * rounds_.capacity()));  // there may be many samples
    sample_ = sample;
    round_ = 0;
    digest_ = 0;
    origins_.clear();
    missed_ = 0;
    asks_first_ = true;
    asked_ = false;
    if (options_.gamma != nullptr) options_.gamma->begin();
}

std::span<const Proposed> Speculate::propose(int64_t limit) {
    collected_.clear();
    if (options_.held != nullptr) limit = std::min(limit, options_.held->size());
    if (text_.at_prompt()) first_token();
    while (collected_.length() < std::min(limit, options_.wanted) && text_.room() >= text_.pending()) {
        alone_.clear();
        draft_round(limit - collected_.length());
        append_rows(alone_);
        Level& verifier = text_.level();
        verifier.extend(alone_.rows);
        const auto end = static_cast<int64_t>(alone_.rows.size());
        settle_round(alone_.draws ? RoundResult{end, verifier.logits().sample(sampling_, alone_.uniforms,
                                                                              options_.held != nullptr)}
                                  : RoundResult{end, {}});
    }
    return collected_.proposal();
}

int64_t Speculate::draft(int64_t limit) {
    collected_.clear();
    return text_.at_prompt() ? 0 : draft_round(limit);
}

std::span<const Proposed> Speculate::settle(const RoundResult& result) {
    if (text_.at_prompt()) {
        first_token();
    } else {
        settle_round(result);
    }
    return collected_.proposal();
}

// After a prefill the logits are available, and nothing has been proposed.
void Speculate::first_token() {
    const std::array<double, 1> u = {uniform(seed_, {.sample = sample_, .round = round_++, .level = options_.level})};
    const int32_t token = text_.level().logits().sample(sampling_, u, /*distributions=*/true)[0];
    collect(token, 0, Origin::kOther);
    text_.append(token);
    inner_.resolve({}, token);
}

// Appends to the collected tokens. The token's distribution is that of this row of the verifier's logits.
void Speculate::collect(int32_t token, int64_t row, Origin origin) {
    const Distribution distribution =
        options_.held == nullptr ? Distribution() : options_.held->hold(collected_.length(), row);
    collected_.add(token, distribution);
    origins_.push_back(origin);
}

/// Requests a draft of at most `most` tokens. With their siblings they fit the rows that the level can stage.
std::span<const Proposed> Speculate::ask(int64_t most) {
    asked_for_ = 0;
    if (most <= 0) return {};
    int64_t gamma = std::min(most, options_.longest);
    const bool chosen = options_.gamma != nullptr && !inner_.chooses();
    if (chosen) gamma = options_.gamma->next(gamma, asks_first_);
    if (options_.siblings != 0 && gamma > 0) {
        const int64_t rows = text_.room() - text_.pending();
        const bool automatic = options_.siblings == GammaController::kAutoSiblings;
        inner_.widen(automatic ? options_.gamma->siblings(gamma, rows) : std::min(options_.siblings, rows / gamma - 1));
    }
    const std::span<const Proposed> proposed = gamma > 0 ? inner_.propose(gamma) : std::span<const Proposed>();
    if (inner_.chooses()) gamma = std::ssize(proposed);
    if (options_.gamma != nullptr) {
        stats_.asked += gamma;
        if (gamma == 0) ++stats_.off;
    }
    asked_for_ = gamma;
    if (asks_first_) asked_ = !proposed.empty();
    asks_first_ = false;
    return proposed;
}

/// Returns the number of rows of the round.
int64_t Speculate::draft_round(int64_t limit) {
    key_ = {.sample = sample_, .round = round_++, .level = options_.level};
    const int64_t pending = text_.pending();
    // The last token of a round is the verifier's own.
    begin_ns_ = trace::now();
    proposed_ = ask(std::min(limit - 1, text_.room() - pending));
    drafted_ns_ = trace::now();
    return pending + static_cast<int64_t>(proposed_.size());
}

uint64_t Speculate::draw(Purpose purpose, size_t node) const {
    DrawKey of = key_;
    of.purpose = purpose;
    of.node = static_cast<uint32_t>(node);
    return static_cast<uint64_t>(fraction_of(uniform(seed_, of)));
}

void Speculate::append_rows(RoundRows& all) {
    const size_t first = all.rows.size();
    const auto pending = static_cast<int32_t>(text_.pending());
    const int32_t first_row = text_.level().cache().staged().size() + static_cast<int32_t>(first);
    text_.append_pending(all.rows);
    proposals_.assign(1, {.uniform = draw(Purpose::kResidual, 0)});
    for (const Proposed& p : proposed_) {
        const int32_t parent = pending + p.parent;
        const int32_t position = all.rows[first + static_cast<size_t>(parent)].position + 1;
        all.rows.push_back(
            {.token = p.token, .position = position, .parent = first_row + parent, .sequence = text_.sequence()});
        proposals_.push_back({.token = p.token,
                              .parent = p.parent,
                              .distribution = p.distribution.distribution,
                              .row = p.distribution.row,
                              .uniform = draw(Purpose::kAccept, proposals_.size())});
    }
    all.uniforms.resize(all.rows.size(), proposed_.empty() ? uniform(seed_, key_) : 0);
    (proposed_.empty() ? all.draws : all.accepts) = true;
}

/// Siblings of the round's tokens, places_.size() * (widened_ + 1) draws; -1 where nothing is left. `end`: the number
/// of the logits' rows.
std::span<const int32_t> Speculate::draw_siblings(int64_t end) {
    uniforms_.clear();
    ends_.clear();
    for (const int64_t place : places_) {
        ends_.resize(index(place), static_cast<int32_t>(uniforms_.size()));
        append_sibling_uniforms(uniforms_, seed_, key_, std::ssize(ends_), widened_);
    }
    ends_.resize(index(end), static_cast<int32_t>(uniforms_.size()));
    return text_.level().logits().sample_siblings(sampling_, uniforms_, ends_);
}

/// Collects the accepted tokens and the one after them. `first`: the row of the logits of the first pending token.
void Speculate::collect_round(const Logits::Accepted& answer, int64_t first, int64_t end) {
    const auto pending = static_cast<int32_t>(text_.pending());
    path_.clear();
    places_.assign(1, first + pending - 1);  // the row whose logits give the next token
    for (const int32_t i : answer.accepted) {
        path_.push_back(pending + i);
        places_.push_back(first + path_.back());
    }
    const std::span<const int32_t> siblings = widened_ > 0 ? draw_siblings(end) : std::span<const int32_t>();
    const int32_t last = answer.accepted.empty() ? -1 : answer.accepted.back();
    const bool refused = std::ranges::any_of(proposed_, [&](const Proposed& p) { return p.parent == last; });
    for (size_t n = 0; n < places_.size(); ++n) {
        const bool next = n == answer.accepted.size();
        const int32_t i = next ? -1 : answer.accepted[n];
        const Origin origin = !next     ? is_later_sibling(proposed_, i) ? Origin::kSibling : Origin::kAccepted
                              : refused ? Origin::kResidual
                                        : Origin::kOther;
        collect(next ? answer.next : proposed_[index(i)].token, places_[n], origin);
        if (widened_ == 0) continue;
        const size_t draws = static_cast<size_t>(widened_) + 1;
        collected_.add_siblings(siblings.subspan(n * draws, draws), widened_, sampling_.greedy());
    }
}

void Speculate::settle_round(const RoundResult& result) {
    Level& verifier = text_.level();
    const auto pending = static_cast<int32_t>(text_.pending());
    const std::span<const Proposed> proposed = proposed_;
    const int64_t first = result.end - pending - static_cast<int64_t>(proposed.size());  // row of the logits
    Logits::Accepted answer = {};
    if (proposed.empty()) {  // as in plain decoding: cheaper than accept() without proposals
        answer.next = result.drawn[index(result.end - 1)];
    } else {
        verifier.stream().wait(proposed.back().distribution.ready);
        answer = verifier.logits().accept(sampling_, proposals_, result.end);
    }
    const uint64_t draft_ns = drafted_ns_ - begin_ns_;
    const uint64_t verify_ns = trace::now() - std::max(drafted_ns_, result.begin_ns);
    stats_.draft_ns += draft_ns;
    stats_.verify_ns += verify_ns;

    // Later calls of the logits replace the answer.
    accepted_.assign(answer.accepted.begin(), answer.accepted.end());
    answer.accepted = accepted_;
    collect_round(answer, first, result.end);
    count(proposed, answer.accepted);
    digest(proposed, answer);
    text_.accept_rows(path_);
    text_.append(answer.next);
    if (options_.keeps_rounds) {
        kept_.push_back({.sample = sample_,
                         .asked = asked_for_,
                         .proposed = rounds_.back().proposed,
                         .accepted = static_cast<int64_t>(answer.accepted.size()),
                         .length = text_.length(),
                         .begin_ns = begin_ns_,
                         .draft_ns = draft_ns,
                         .verify_ns = verify_ns});
    }
    inner_.resolve(answer.accepted, answer.next);
}

// The collected tokens were already appended: rejected ones are rolled back before any lower level settles. The
// outermost level keeps all its tokens, unless the sequence ended among them. Then its last token becomes pending
// again, so that a run with other stop rules can resume.
void Speculate::resolve(std::span<const int32_t> path, int32_t next) {
    const BranchedChain::Kept kept = collected_.kept(path, name());
    int64_t drop = collected_.length() - kept.length;
    const bool outermost = options_.level == 0;
    if (outermost && drop > 0 && !path.empty() && next < 0) {
        ++drop;
        next = collected_.proposal()[index(path.back())].token;
    }
    collected_.clear();
    if (outermost && drop > 0) missed_ = 0;  // discarded tokens do not count
    if (kept.sibling >= 0) {
        rewind(drop, kept.sibling);
        drop = 0;
    }
    rewind(drop, next);
    if (outermost) commit();
}

void Speculate::commit() {
    text_.commit();
    if (options_.gamma != nullptr) {
        const auto of = [&](Origin origin) { return std::ranges::count(origins_, origin); };
        options_.gamma->observe({.tokens = static_cast<int64_t>(origins_.size()),
                                 .accepted = of(Origin::kAccepted),
                                 .residual = of(Origin::kResidual),
                                 .rescued = of(Origin::kSibling),
                                 .missed = missed_,
                                 .asked = asked_});
    }
    origins_.clear();
    missed_ = 0;
    asks_first_ = true;
    asked_ = false;
    inner_.commit();
}

void Speculate::state(Archive& ar) {
    ar.section(name_);
    ar.section("rounds and siblings");
    check(collected_.length() == 0, "{}: {} tokens are not committed", name_, collected_.length());
    text_.state(ar, /*tiles=*/options_.level > 0);
    for (uint32_t* n : {&sample_, &round_}) ar.value(*n);
    ar.value(digest_);
    ar.value(stats_);
    ar.values(rounds_);
    ar.values(origins_);
    ar.value(missed_);
    for (bool* b : {&asks_first_, &asked_}) ar.value(*b);
    if (options_.gamma != nullptr) options_.gamma->state(ar);
    inner_.state(ar);
}

void Speculate::rewind(int64_t n, int32_t next) {
    text_.truncate(text_.length() - n, next);
    origins_.resize(origins_.size() - std::min(origins_.size(), static_cast<size_t>(n)));
    if (next >= 0) origins_.push_back(Origin::kOther);
    inner_.rewind(n, next);
}

void Speculate::digest(std::span<const Proposed> proposed, const Logits::Accepted& answer) {
    digested_.assign({static_cast<int32_t>(asked_for_), static_cast<int32_t>(proposed.size()), answer.next});
    for (const Proposed& p : proposed) digested_.insert(digested_.end(), {p.token, p.parent});
    digested_.insert(digested_.end(), answer.accepted.begin(), answer.accepted.end());
    digest_ = XXH3_64bits_withSeed(digested_.data(), digested_.size() * sizeof(int32_t), digest_);
}

void Speculate::count(std::span<const Proposed> proposed, std::span<const int32_t> accepted) {
    ++stats_.rounds;
    const int64_t before = stats_.proposed;
    stats_.accepted += static_cast<int64_t>(accepted.size());
    const bool siblings = options_.siblings != 0;  // of a chain
    const int32_t last = accepted.empty() ? -1 : accepted.back();
    // The verifier tried the children of one token until it accepted a sibling, or rejected all of them.
    const bool rescues = siblings && last >= 0 && is_later_sibling(proposed, last);
    const int32_t tried = rescues ? proposed[index(last)].parent : last;
    for (int32_t i = 0; i < std::ssize(proposed); ++i) {
        const Proposed& p = proposed[index(i)];
        if (siblings && is_later_sibling(proposed, i)) {
            ++stats_.siblings;
            if (i == last) {
                ++stats_.rescued;
            } else if (p.parent == tried && (!rescues || i < last)) {
                ++missed_;
            }
            continue;
        }
        ++stats_.proposed;
        if (!siblings) stats_.branched |= p.parent != i - 1;
        size_t depth = 0;
        for (int32_t at = p.parent; at >= 0; at = proposed[index(at)].parent) ++depth;
        ++stats_.proposed_at[depth];
    }
    for (size_t depth = 0; depth < accepted.size(); ++depth) ++stats_.accepted_at[depth];
    rounds_.push_back({static_cast<uint8_t>(stats_.proposed - before), static_cast<uint8_t>(accepted.size())});
}

}  // namespace trireme
