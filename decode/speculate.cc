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
    return proposed > 0 ? static_cast<double>(accepted) / static_cast<double>(proposed) : 0;
}

double SpeculationStats::accept_len() const {
    return rounds > 0 ? static_cast<double>(accepted + rounds) / static_cast<double>(rounds) : 0;
}

std::optional<double> SpeculationStats::alpha() const {
    if (proposed == 0 || branched) return std::nullopt;
    return alpha_of(accepted, proposed_at);
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
    collected_.reserve(2 * kMaxRows);
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
    asks_first_ = true;
    asked_ = false;
    if (options_.gamma != nullptr) options_.gamma->begin();
}

std::span<const Proposed> Speculate::propose(int64_t limit) {
    collected_.clear();
    if (options_.held != nullptr) limit = std::min(limit, options_.held->size());
    if (text_.at_prompt()) first_token();
    const auto collected = [&] { return static_cast<int64_t>(collected_.size()); };
    while (collected() < std::min(limit, options_.wanted) && text_.room() >= text_.pending()) {
        alone_.clear();
        draft_round(limit - collected());
        append_rows(alone_);
        Level& verifier = text_.level();
        verifier.extend(alone_.rows);
        const auto end = static_cast<int64_t>(alone_.rows.size());
        settle_round(alone_.draws ? RoundResult{end, verifier.logits().sample(sampling_, alone_.uniforms,
                                                                              options_.held != nullptr)}
                                  : RoundResult{end, {}});
    }
    return collected_;
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
    return collected_;
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
    const auto i = static_cast<int32_t>(collected_.size());
    const Distribution distribution = options_.held == nullptr ? Distribution() : options_.held->hold(i, row);
    collected_.push_back({.token = token, .parent = i - 1, .distribution = distribution});
    origins_.push_back(origin);
}

std::span<const Proposed> Speculate::ask(int64_t most) {
    asked_for_ = 0;
    if (most <= 0) return {};
    int64_t gamma = most;
    const bool chosen = options_.gamma != nullptr && !inner_.chooses();
    if (chosen) gamma = options_.gamma->next(most, asks_first_);
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

    path_.clear();
    int64_t place = pending - 1;  // the row whose logits give the next token
    for (const int32_t i : answer.accepted) {
        collect(proposed[index(i)].token, first + place, Origin::kAccepted);
        place = pending + i;
        path_.push_back(static_cast<int32_t>(place));
    }
    const int32_t last = answer.accepted.empty() ? -1 : answer.accepted.back();
    const bool refused = std::ranges::any_of(proposed, [&](const Proposed& p) { return p.parent == last; });
    collect(answer.next, first + place, refused ? Origin::kResidual : Origin::kOther);
    count(proposed, answer.accepted);
    digest(proposed, answer);
    text_.accept_rows(path_);
    text_.append(answer.next);
    if (options_.keeps_rounds) {
        kept_.push_back({.sample = sample_,
                         .asked = asked_for_,
                         .proposed = static_cast<int64_t>(proposed.size()),
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
    check(path.size() <= collected_.size(), "{}: {} of {} tokens stay", name(), path.size(), collected_.size());
    auto drop = static_cast<int64_t>(collected_.size() - path.size());
    const bool outermost = options_.level == 0;
    if (outermost && drop > 0 && !path.empty() && next < 0) {
        ++drop;
        next = collected_[path.size() - 1].token;
    }
    collected_.clear();
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
                                 .asked = asked_});
    }
    origins_.clear();
    asks_first_ = true;
    asked_ = false;
    inner_.commit();
}

void Speculate::state(Archive& ar) {
    ar.section(name_);
    check(collected_.empty(), "{}: {} tokens are not committed", name_, collected_.size());
    text_.state(ar, /*tiles=*/options_.level > 0);
    for (uint32_t* n : {&sample_, &round_}) ar.value(*n);
    ar.value(digest_);
    ar.value(stats_);
    ar.values(rounds_);
    ar.values(origins_);
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
    rounds_.push_back({static_cast<uint8_t>(proposed.size()), static_cast<uint8_t>(accepted.size())});
    stats_.proposed += static_cast<int64_t>(proposed.size());
    stats_.accepted += static_cast<int64_t>(accepted.size());
    for (size_t i = 0; i < proposed.size(); ++i) {
        const Proposed& p = proposed[i];
        stats_.branched |= p.parent != static_cast<int32_t>(i) - 1;
        size_t depth = 0;
        for (int32_t at = p.parent; at >= 0; at = proposed[index(at)].parent) ++depth;
        ++stats_.proposed_at[depth];
    }
    for (size_t depth = 0; depth < accepted.size(); ++depth) ++stats_.accepted_at[depth];
}

}  // namespace trireme
