#include "decode/score.h"

#include <memory>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/commands/score_pairs.h"
#include "launch/record/run_record.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/report/trace_file.h"
#include "launch/run/bounded.h"
#include "launch/run/request.h"
#include "launch/run/signals.h"
#include "model/files/hdf5_image.h"
#include "runtime/log.h"

namespace trireme {

void run_score(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    if (o.prompt_from == PromptFrom::kData) return run_score_pairs(start, crew);
    crew.first_only([&] { probe_outputs(o); });
    Engine engine(start, crew);
    const Request request = read_request(start, crew, engine);
    engine.load(start, crew, request.positions, request.tokens());
    warn_of_unused_bounded(o, engine.bounded(), request.tokens());
    const auto tokens = static_cast<int64_t>(request.ids.size());

    std::unique_ptr<Hdf5Image> image;
    crew.first_only([&] {
        if (o.dump_logits.empty()) return;
        const std::vector<int64_t> shape = {tokens, engine.checkpoint().config().vocab};
        Hdf5Image::require_memory("--dump-logits", shape, engine.device().host_memory_free());
        image = std::make_unique<Hdf5Image>();
        image->create("logits", shape);
    });
    Level::EachLogits keep;
    if (image) {
        keep = [&](int64_t position, const HostTensor& logits) { image->write_rows("logits", position, logits); };
    }

    // A policy evicts behind every token, as it would while generating, unless the text comes in chunks.
    const ReadBy by = engine.bounded().bounded() && o.bounded.chunk == 0 ? ReadBy::kSteps : ReadBy::kPrefill;
    const ProgressSink sink = stderr_progress(crew.first() && !o.no_progress);
    Score score;
    {
        ProgressMeter progress("score", "tokens", sink);
        score = trireme::score(engine.model(), request.ids, by, keep, std::ref(progress));
    }
    remember_signals();  // from here on results are written even if a signal comes
    log::info("{} tokens, perplexity {:.6f}", tokens, score.perplexity);

    crew.first_only([&] {
        const nlohmann::ordered_json json = {
            {"tokens", request.ids}, {"logprobs", score.logprobs}, {"perplexity", score.perplexity}};
        // stdout first: if the disk is full, the log probabilities are written all the same.
        TextOut(STDOUT_FILENO).write(json.dump() + "\n");  // doubles with all their digits
        if (image) image->save(o.dump_logits, o.old_outputs());
    });
    write_trace(o, crew);
    write_score_record(start, crew, engine, tokens, {{"tokens", tokens}, {"perplexity", score.perplexity}});
}

}  // namespace trireme
