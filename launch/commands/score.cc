#include "decode/score.h"

#include <memory>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/run/session.h"
#include "launch/run/signals.h"
#include "model/files/hdf5_image.h"
#include "runtime/log.h"

namespace trireme {

void run_score(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    const Session s = open_session(start, crew);
    const auto tokens = static_cast<int64_t>(s.ids.size());

    std::unique_ptr<Hdf5Image> image;
    crew.first_only([&] {
        if (o.dump_logits.empty()) return;
        const std::vector<int64_t> shape = {tokens, s.model->config().vocab};
        Hdf5Image::require_memory("--dump-logits", shape, s.device->host_memory_free());
        image = std::make_unique<Hdf5Image>();
        image->create("logits", shape);
    });
    Level::EachLogits keep;
    if (image) {
        keep = [&](int64_t position, const HostTensor& logits) { image->write_rows("logits", position, logits); };
    }

    const ProgressSink sink = stderr_progress(crew.first() && !o.no_progress);
    Score score;
    {
        ProgressMeter progress("score", "tokens", sink);
        score = trireme::score(*s.model, s.ids, keep, std::ref(progress));
    }
    remember_signals();  // what is there now is put out
    log::info("{} tokens, perplexity {:.6f}", tokens, score.perplexity);

    crew.first_only([&] {
        const nlohmann::ordered_json json = {
            {"tokens", s.ids}, {"logprobs", score.logprobs}, {"perplexity", score.perplexity}};
        // First what needs no disk: should that be full, the log probabilities are there.
        TextOut(STDOUT_FILENO).write(json.dump() + "\n");  // doubles with all their digits
        if (image) image->save(o.dump_logits, o.old_outputs());
    });
    write_trace(o, crew);
}

}  // namespace trireme
