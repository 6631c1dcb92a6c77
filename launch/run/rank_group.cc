#include "launch/run/rank_group.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "launch/run/outcome.h"
#include "runtime/env.h"

namespace trireme {

void RankGroup::phase(const std::function<void()>& work) const {
    const Outcome mine = attempt(work);
    const std::vector<std::string> all = comm_.gather_bytes(fmt::format("{} {}", mine.status, mine.message));
    std::vector<int> status;
    status.reserve(all.size());
    for (const std::string& s : all) status.push_back(std::atoi(s.c_str()));
    const auto worst = std::max_element(status.begin(), status.end());  // the lowest rank among equals
    if (*worst == 0) return;

    const auto rank = static_cast<size_t>(worst - status.begin());
    const bool everywhere = std::all_of(all.begin(), all.end(), [&](const std::string& s) { return s == all[rank]; });
    const std::string message = all[rank].substr(all[rank].find(' ') + 1);
    throw AgreedError(static_cast<Exit>(*worst),
                      everywhere || rank == 0 ? message : fmt::format("rank {}: {}", rank, message));
}

void RankGroup::first_only(const std::function<void()>& work) const {
    phase([&] {
        if (first()) work();
    });
}

void RankGroup::first_only_waiting(const std::function<void(const StillWaiting&)>& work) const {
    using Clock = std::chrono::steady_clock;
    enum class Rank0 : char { kWaits, kIsDone };
    const std::chrono::duration<double> interval(std::min(1.0, env().timeout_s / 4));
    const auto tell = [&](Rank0 state) { return comm_.gather_values(state)[0]; };
    std::exception_ptr failure;
    if (first()) {
        bool peers = true;  // false: a message to them has failed
        auto told = Clock::now();
        try {
            work([&] {
                if (Clock::now() - told < interval) return;
                peers = false;
                tell(Rank0::kWaits);
                peers = true;
                told = Clock::now();
            });
        } catch (...) {
            if (!peers) throw;
            failure = std::current_exception();
        }
        tell(Rank0::kIsDone);
    } else {
        while (tell(Rank0::kWaits) == Rank0::kWaits) {
        }
    }
    phase([&] {
        if (failure) std::rethrow_exception(failure);
    });
}

}  // namespace trireme
