#pragma once
/// Runners of a batch's requests, one after the other or in parallel. Every request gets the text that it gets alone.

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
    double tok_s = 0;       // of the tokens after the first one; 0: there are none
};
/// Called for the requests in order on every rank, for each one as soon as all before it are done.
using OnBatchDone = std::function<void(const BatchRequest& request, const BatchDone& done)>;

/// Runs one request after the other, each by its own chain.
class BatchOneByOne {
  public:
    /// Loads `engine` for the longest request. All arguments must outlive the object. Errors: as Engine::load.
    BatchOneByOne(const Start& start, const RankGroup& rank_group, Engine& engine,
                  const std::vector<BatchRequest>& requests, SpecCosts costs, RunLog& log);
    /// Returns 0, or the status of a signal that came before the last request was done.
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
    SpecCosts costs_;  // measured in the first request, used by all
    int64_t context_ = 0, longest_prompt_ = 0, loaded_for_ = 0;
    std::optional<uint64_t> loaded_seed_;
    GenerateStats stats_;
    int status_ = 0;
};

/// Runs up to --parallel requests in each forward, without speculation. The next request gets a finished one's slot.
class BatchSideBySide {
  public:
    BatchSideBySide(const Start& start, const RankGroup& rank_group, Engine& engine,
                    const std::vector<BatchRequest>& requests, RunLog& log);
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
    int64_t parallel_ = 0;
    std::vector<Options> options_;         // [requests]
    std::vector<StopRules> rules_;         // [requests]
    OnToken unseen_;                       // empty: tokens are not reported as they come
    std::vector<UnderWay> under_way_;      // [requests]
    std::map<size_t, BatchDone> waiting_;  // finished requests whose predecessors are not done
    size_t told_ = 0;
    int status_ = 0;
};

}  // namespace trireme
