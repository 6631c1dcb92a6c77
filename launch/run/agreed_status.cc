#include "launch/run/agreed_status.h"

#include <algorithm>
#include <array>
#include <vector>

#include <xxhash.h>

#include "launch/run/signals.h"

namespace trireme {

int agreed_status(const Crew& crew, int own, std::span<const int32_t> round) {
    const int number = remembered_signal();
    const std::array<uint64_t, 2> mine = {static_cast<uint64_t>(number != 0 ? 128 + number : own),
                                          XXH3_64bits(round.data(), round.size_bytes())};
    const std::vector<std::array<uint64_t, 2>> all = crew.comm().gather_values(mine);
    int status = 0;
    for (const std::array<uint64_t, 2>& theirs : all) {
        status = std::max(status, static_cast<int>(theirs[0]));
        // If any two differ, every rank throws.
        if (theirs[1] != all[0][1]) {
            throw AgreedError(Exit::kInternal,
                              "ranks drew different tokens: are their processors or libraries of "
                              "different kinds? Start all ranks on machines of one kind");
        }
    }
    return status;
}

}  // namespace trireme
