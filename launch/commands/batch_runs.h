#pragma once
/// Runners of batch's requests, one after the other or in parallel. A request's text is the one that it would have if
/// it ran alone. All ranks have a runner, with the same requests, of which there is at least one.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "decode/generate.h"
#include "decode/places.h"
#include "launch/commands/batch_requests.h"
#include "launch/commands/commands.h"
#include "launch/record/run_log.h"
#include "launch/run/engine.h"
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

/// Runs one request after the other, with speculation or eviction if flags request it. Used with --parallel 1.
class BatchOneByOne {
  public:
    /// Loads `engine` for the longest request. The arguments must outlive the object. `costs` are those of
    /// --spec-costs; if they are empty and draft lengths require costs, the first request measures them. Errors: as
    /// Engine::load; Exit::kConfig for a budget that is too small for some prompt.
    BatchOneByOne(const Start& start, const RankGroup& rank_group, Engine& engine,
                  const std::vector<BatchRequest>& requests, SpecCosts costs, RunLog& log);
    /// Runs all requests. Returns 0, or 128 + the number of a signal that came before the last request was done.
    int run(const OnBatchDone& done);

  private:
    std::optional<Continuation> run_one(const BatchRequest& asked);
    bool differs(const Options& o, int64_t prompt_tokens) const;
    void load(const Options& o, int64_t prompt_tokens);

    const Start& start_;
    const RankGroup& rank_group_;
    Engine& engine_;
    const std::vector<BatchRequest>& requests_;
    RunLog& log_;
    SpecCosts costs_;                                            // given, or measured in the first request; used by all
    int64_t context_ = 0, longest_prompt_ = 0, loaded_for_ = 0;  // loaded_for_: the prompt length of the last load()
    std::optional<uint64_t> loaded_seed_;                        // of the last load()
    GenerateStats stats_;
    int status_ = 0;
};

/// Decodes up to --parallel requests in each forward, without speculation and eviction. When a request ends, the next
/// one takes its slot. Used with --parallel other than 1.
class BatchSideBySide {
  public:
    /// Loads `engine` for the longest request and the parallel sequences. The arguments must outlive the object.
    /// Errors: as Engine::load.
    BatchSideBySide(const Start& start, const RankGroup& rank_group, Engine& engine,
                    const std::vector<BatchRequest>& requests, RunLog& log);
    /// Like BatchOneByOne::run().
    int run(const OnBatchDone& done);

  private:
    struct UnderWay {
        uint64_t begin_ns = 0, first_ns = 0;
        double prefill_ms = 0;
    };
    void read(size_t request, int place);
    void begin(Places& places, size_t request, int place);
    void ended(size_t request, Continuation text);
    void tell(const OnBatchDone& done);

    const Start& start_;
    const RankGroup& rank_group_;
    Engine& engine_;
    const std::vector<BatchRequest>& requests_;
    RunLog& log_;
    int64_t parallel_ = 0;                 // number of slots
    std::vector<Options> options_;         // [requests]
    std::vector<StopRules> rules_;         // [requests]
    OnToken unseen_;                       // empty: tokens are not reported one by one
    std::vector<UnderWay> under_way_;      // [requests]
    std::map<size_t, BatchDone> waiting_;  // finished requests whose predecessors are not done
    size_t told_ = 0;                      // number of requests that OnBatchDone has received
    int status_ = 0;
};

}  // namespace trireme
