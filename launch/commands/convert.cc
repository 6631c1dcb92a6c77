#include "launch/commands/commands.h"
#include "model/files/model_folder.h"

namespace trireme {

void run_convert(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    crew.first_only([&] { write_model_folder(o.model, o.output_path, o.layer_map, o.average); });
}

}  // namespace trireme
