#include "launch/run/crew.h"

#include <algorithm>
#include <cstdlib>

#include "launch/run/outcome.h"

namespace trireme {

void Crew::phase(const std::function<void()>& work) const {
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

void Crew::first_only(const std::function<void()>& work) const {
    phase([&] {
        if (first()) work();
    });
}

}  // namespace trireme
