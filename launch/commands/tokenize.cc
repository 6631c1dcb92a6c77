#include <unistd.h>

#include "launch/commands/commands.h"
#include "launch/report/output.h"
#include "launch/run/outcome.h"
#include "launch/run/prompt.h"
#include "model/tokenizer/tokenizer.h"
#include "runtime/device.h"
#include "runtime/module.h"

namespace trireme {

void run_tokenize(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(o.tokenizer_path());
        const std::vector<int32_t> ids =
            encode_prompt(*tokenizer, read_prompt_text(o, waiting), adds_special(o, false));
        TextOut(STDOUT_FILENO).write(ids_as_json(ids) + "\n");
    });
}

std::string list_devices() {
    const std::unique_ptr<Device> cpu = open_device("cpu");
    std::string text =
        fmt::format("{}, {:.1f} GB of memory, {:.1f} free\n", cpu->name(),
                    static_cast<double>(cpu->memory_total()) * 1e-9, static_cast<double>(cpu->memory_free()) * 1e-9);
    const Outcome loaded = attempt([&] {
        load_cuda_module();
        for (const std::string& line : device_listers().find("cuda")()) text += line + '\n';
    });
    return loaded.status == 0 ? text : text + loaded.message + '\n';
}

}  // namespace trireme
