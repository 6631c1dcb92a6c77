#include "launch/commands/plan_changes.h"

#include <optional>

namespace trireme {
namespace {

constexpr int64_t kLargestChunk = 256;

class Search {
  public:
    Search(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine)
        : wish_(wish), input_for_(input_for), machine_(machine) {}

    std::optional<Plan> fitting(const PlanWish& w) const {
        const Plan p = make_plan(input_for_(w), machine_);
        return p.fits(machine_) ? std::optional(p) : std::nullopt;
    }

    /// The smallest chunk, larger than the requested one, with which the run fits.
    std::string chunk(int64_t on_chip) const {
        PlanWish w = wish_;
        w.on_chip = on_chip;
        if (w.retrieval.budget == 0) return "";
        while (w.retrieval.chunk * 2 <= kLargestChunk) {
            w.retrieval.chunk *= 2;
            if (const auto p = fitting(w)) {
                return fmt::format("--retrieval-chunk {}{}: summaries take {:.3f} GiB", w.retrieval.chunk,
                                   on_chip == wish_.on_chip ? "" : " " + layers(*p), gib(p->summary_bytes));
            }
        }
        return "";
    }
    std::string on_chip() const {
        PlanWish w = wish_;
        w.on_chip = PlanInput::kAuto;
        const auto p = wish_.on_chip == w.on_chip ? std::nullopt : fitting(w);
        return p ? fmt::format("{}: {:.3f} GiB of keys and values stay, {:.3f} GiB lie on the host", layers(*p),
                               gib(p->kv.device), gib(p->kv.host))
                 : "";
    }
    std::string budget() const {
        PlanWish w = wish_;
        w.retrieval.budget = most_tokens(
            [&](int64_t tokens) {
                w.retrieval.budget = tokens;
                return input_for_(w);
            },
            machine_, wish_.retrieval.budget - 1);
        if (w.retrieval.budget == 0) return "";
        return fmt::format("--retrieval-budget {}: the set takes {:.3f} GiB", w.retrieval.budget,
                           gib(fitting(w)->retrieved.device));
    }
    std::string texts() const {
        const int64_t most = wish_.texts > 1 ? most_texts(wish_, input_for_, machine_, wish_.texts - 1) : 0;
        return most > 0 ? fmt::format("--parallel {}", most) : "";
    }
    std::string context() const {
        const int64_t most = largest_context(wish_, input_for_, machine_);
        return most > 0 ? fmt::format("--ctx-size {}", most) : "";
    }
    std::string ranks(int64_t most) const {
        PlanWish w = wish_;
        for (w.ranks *= 2; w.ranks <= most; w.ranks *= 2) {
            if (fitting(w)) return fmt::format("{0} ranks on {0} such devices", w.ranks);
        }
        return "";
    }

  private:
    static std::string layers(const Plan& p) { return fmt::format("--kv-on-chip {}", p.on_chip_layers); }

    const PlanWish& wish_;
    const PlanInputFor& input_for_;
    const Machine& machine_;
};

}  // namespace

int64_t largest_context(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine) {
    const auto with_context = [&](int64_t tokens) {
        PlanWish w = wish;
        w.context = tokens;
        return input_for(w);
    };
    return most_tokens(with_context, machine, wish.context);
}

int64_t most_texts(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine, int64_t at_most) {
    const auto with_texts = [&](int64_t texts) {
        PlanWish w = wish;
        w.texts = texts;
        return input_for(w);
    };
    return most_that_fit(with_texts, machine, at_most);
}

std::vector<std::string> changes_that_fit(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine,
                                          int64_t most_ranks) {
    const Search search(wish, input_for, machine);
    std::vector<std::string> all;
    const auto add = [&](std::string line) {
        if (!line.empty()) all.push_back(std::move(line));
    };
    add(search.chunk(wish.on_chip));
    add(search.on_chip());
    add(search.budget());
    if (all.empty() && wish.on_chip != PlanInput::kAuto) add(search.chunk(PlanInput::kAuto));
    add(search.texts());
    add(search.context());
    add(search.ranks(most_ranks));
    return all;
}

}  // namespace trireme
