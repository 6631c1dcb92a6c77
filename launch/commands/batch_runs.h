#pragma once
/// BatchRuns: runs batch's requests in batch slots. A request's text is the one that it would have if it ran alone.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/loop.h"
#include "launch/commands/batch_requests.h"
#include "launch/commands/commands.h"
#include "launch/record/run_log.h"
#include "launch/run/chain.h"
#include "launch/run/decode_run.h"
#include "launch/run/engine.h"
#include "launch/run/progress.h"
#include "launch/run/side_by_side.h"
#include "launch/run/spec_costs.h"

namespace trireme {

/// A finished request.
struct BatchDone {
    Continuation made;
    double seconds = 0;     // from the prompt's first token to the end
    double prefill_ms = 0;  // of the prompt
    double tok_s = 0;       // tokens per second after the first token; 0: there are no more
};
/// Called on every rank for each finished request, in the order of the requests: a request that finishes early waits
/// until all before it are done.
using OnBatchDone = std::function<void(const BatchRequest& request, const BatchDone& done)>;
/// Called on every rank with the text of each token, if the request streams.
using OnBatchText = std::function<void(const BatchRequest& request, std::string_view text)>;

/// All ranks have one, and give it the same requests. Up to --parallel requests are decoded together, with speculation
/// or eviction if flags request it. When one ends, the next one takes its slot and reads its prompt, while the others
/// wait.
class BatchRuns {
  public:
    /// The arguments must outlive the object. `costs` are those of --spec-costs; if they are empty and draft lengths
    /// require costs, the first request measures them.
    BatchRuns(const Start& start, const RankGroup& rank_group, Engine& engine, SpecCosts costs, RunLog& log);

    /// Allocates KV memory for these sequences, which requests will use later. Does nothing if there is enough. Errors:
    /// as Engine::load.
    void reserve(const SideBySideAsked& asked);
    /// Reloads the engine if a policy has another budget or seed for a prompt of `prompt` tokens than the loaded one.
    /// Call it after reserve(), before the model is used without a request. Errors: as Engine::load.
    void adapt(int64_t prompt);
    /// Call it after a load that failed: the next one allocates only what it requires.
    void release();
    /// Takes requests, of which there is at least one, and reserves KV memory for them. Errors: as reserve();
    /// Exit::kConfig for a budget that is too small for some prompt.
    void prepare(std::vector<BatchRequest> requests);
    /// Runs the requests of prepare(). Returns 0, or the status of agreed_status() that stopped the run before the last
    /// request was done.
    int run(const OnBatchDone& done, const OnBatchText& text = {});
    /// The number of times that the engine was loaded.
    int64_t loads() const { return loads_; }
    /// The rounds of all requests.
    DecodeRun& rounds() { return decode_run_; }

  private:
    struct Times {
        uint64_t begin_ns = 0, first_ns = 0;
        double prefill_ms = 0;
    };
    bool fits_loaded(const Options& options, int64_t prompt) const;
    void reserve(const SideBySideAsked& asked, const Options& options, int64_t first);
    void load(const Options& options, int64_t prompt_tokens);
    void check_budgets() const;
    void begin(size_t request, int slot, std::vector<int32_t>& round);
    void read(size_t request, Chain& chain);
    void ended(size_t request, Continuation text);
    void report(const OnBatchDone& done);
    std::string name_of_request(size_t request) const;
    void finish_round(const std::vector<int32_t>& round);

    const Start& start_;
    const RankGroup& rank_group_;
    Engine& engine_;
    RunLog& log_;
    std::vector<BatchRequest> requests_;
    std::vector<Options> options_;                             // [requests]
    std::vector<StopRules> rules_;                             // [requests]
    std::vector<OnToken> streams_;                             // [requests] empty: tokens are not reported one by one
    SpecCosts costs_;                                          // given, or measured in the first request; used by all
    int64_t context_ = 0, longest_prompt_ = 0, parallel_ = 1;  // what the engine is loaded for
    int64_t asked_ = 0;                                        // the most requests of a prepare()
    int64_t loads_ = 0;
    bool began_ = false;                   // a prompt has been read
    int64_t loaded_for_ = 0;               // the prompt length of the last load()
    std::optional<uint64_t> loaded_seed_;  // of the last load()
    std::optional<Loop> loop_;
    std::vector<std::unique_ptr<Chain>> chains_;  // [slots]
    std::vector<int64_t> texts_;                  // [slots] index of the last request
    std::vector<Times> times_;                    // [requests]
    std::map<size_t, BatchDone> waiting_;         // finished requests whose predecessors are not done
    size_t reported_ = 0;                         // number of requests that OnBatchDone has received
    ProgressSink sink_;
    // One request at a time: the progress of the last one that began; its time begins with the first round.
    std::optional<ProgressMeter> decoding_;
    size_t current_ = 0;
    int64_t decoded_ = 0, most_ = 0;  // tokens
    DecodeRun decode_run_{rank_group_, [this] { return digest_of(chains_); }};
};

}  // namespace trireme
