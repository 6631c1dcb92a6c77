#include "launch/report/trace_file.h"

#include <span>
#include <string>
#include <vector>

#include "runtime/atomic_file.h"
#include "runtime/trace.h"

namespace trireme {

void write_trace(const Options& o, const RankGroup& rank_group) {
    if (o.trace.empty()) return;
    const std::vector<std::string> parts = rank_group.comm().gather_bytes(trace::json(rank_group.comm().rank()));
    rank_group.first_only([&] {
        // Each rank's trace is an object with one array of events. All elements go into the first rank's array.
        std::string all = parts[0].substr(0, parts[0].rfind(']'));
        for (size_t r = 1; r < parts.size(); ++r) {
            const size_t from = parts[r].find('[') + 1;
            all += ',' + parts[r].substr(from, parts[r].rfind(']') - from);
        }
        all += parts[0].substr(parts[0].rfind(']'));
        write_file_atomically(o.trace, std::as_bytes(std::span(all)), o.old_outputs());
    });
}

}  // namespace trireme
