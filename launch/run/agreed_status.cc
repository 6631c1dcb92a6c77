#include "launch/run/agreed_status.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "launch/run/signals.h"

namespace trireme {

int agreed_status(const RankGroup& rank_group, int own, std::span<const int32_t> round, uint64_t chain) {
    const int number = remembered_signal();
    const std::array<uint64_t, 3> mine = {static_cast<uint64_t>(number != 0 ? 128 + number : own),
                                          XXH3_64bits(round.data(), round.size_bytes()), chain};
    const std::vector<std::array<uint64_t, 3>> all = rank_group.comm().gather_values(mine);
    int status = 0;
    bool drew = false, proposed = false;
    for (const std::array<uint64_t, 3>& theirs : all) {
        status = std::max(status, static_cast<int>(theirs[0]));
        drew |= theirs[1] != all[0][1];
        proposed |= theirs[2] != all[0][2];
    }
    // If any two differ, every rank throws.
    if (drew || proposed) {
        throw AgreedError(Exit::kInternal,
                          fmt::format("ranks {} different tokens: are their processors{} of different kinds? Start all "
                                      "ranks on machines of one kind{}",
                                      drew ? "drew" : "proposed or accepted",
                                      proposed ? ", libraries or draft models" : " or libraries",
                                      proposed ? ", with the same files" : ""));
    }
    return status;
}

int exit_status(int agreed) {
    if (agreed == kSnapshotAsked || agreed == kSaved) return static_cast<int>(Exit::kTryAgain);
    return agreed == kReaderGone ? 0 : agreed;
}

}  // namespace trireme
