#include <algorithm>
#include <filesystem>

#include "launch/commands/commands.h"
#include "launch/run/outcome.h"
#include "launch/run/signals.h"
#include "model/checkpoint/model_folder.h"
#include "model/checkpoint/model_store.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {

void run_convert(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    if (!o.tokens.empty()) return run_convert_tokens(start, rank_group);
    remember_signals();  // on every rank, since rank 0 may have to remove a folder
    rank_group.first_only_waiting([&](const StillWaiting& still_waiting) {
        const auto proceed = [&] {
            still_waiting();
            if (const int number = remembered_signal(); number != 0) {
                log::info("stopped by signal {}: {} is not written", number, o.output_path);
                throw Stopped{128 + number};
            }
        };
        const Conversion model(o.model, {.layer_map = o.layer_map, .average = o.average, .dtype = o.dtype});
        const bool store = std::filesystem::path(o.output_path).extension() == ".h5";
        require(store || o.ranks == 0, Exit::kUsage,
                "--ranks {}: says how a .h5 file is laid out, and {} becomes a folder; want -o NAME.h5", o.ranks,
                o.output_path);
        if (store) {
            write_model_store(model, o.output_path, o.old_outputs(), static_cast<int>(std::max<int64_t>(1, o.ranks)),
                              proceed);
        } else {
            write_model_folder(model, o.output_path, proceed);
        }
    });
}

}  // namespace trireme
