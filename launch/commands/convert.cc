#include "launch/commands/commands.h"
#include "launch/run/outcome.h"
#include "launch/run/signals.h"
#include "model/files/model_folder.h"
#include "runtime/log.h"

namespace trireme {

void run_convert(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    if (!o.tokens.empty()) return run_convert_tokens(start, crew);
    remember_signals();  // on every rank: rank 0 has a folder to remove
    crew.first_only_waiting([&](const StillWaiting& still_waiting) {
        write_model_folder(o.model, o.output_path, o.layer_map, o.average, [&] {
            still_waiting();
            if (const int number = remembered_signal(); number != 0) {
                log::info("stopped by signal {}: {} is not written", number, o.output_path);
                throw Stopped{128 + number};
            }
        });
    });
}

}  // namespace trireme
