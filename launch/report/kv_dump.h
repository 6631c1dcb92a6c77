#pragma once
/// KvDump: the content of the file of --kv-dump. It has the tokens that KV heads retain, or the chunks that a chain
/// retrieves, as JSON Lines. The command writes the file at the end of the run.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/run/engine.h"
#include "launch/run/rank_group.h"

namespace trireme {

/// Base class of dumps. All ranks have a dump, or none has; all make the same calls.
class KvDump {
  public:
    virtual ~KvDump() = default;

    /// Appends the lines of the current step or selection, unless they have been appended. It then waits for the device
    /// and makes a control call.
    virtual void take() = 0;
    /// Like take(), but counts a round. Called after each round.
    virtual void round() { take(); }
    /// Like take(), but without lines: for changes by a warm-up, or those that a resumed run has already dumped.
    virtual void skip() = 0;
    /// All lines, in the order of rounds or steps, owner layers, and the model's KV heads. Empty except on rank 0.
    const std::string& lines() const { return lines_; }

  protected:
    KvDump(const Engine& engine, const RankGroup& rank_group);

    /// The owner layers.
    const std::vector<LayerIndex>& owners() const { return owners_; }
    /// This rank's KV heads that no lower rank holds: [first_head(), end_head()), numbered as in the model.
    int64_t first_head() const { return first_head_; }
    int64_t end_head() const { return end_head_; }
    /// The first KV head that this rank holds, whether or not a lower rank also holds it.
    int64_t first_held() const { return engine_.weights().shard().kv_begin; }
    /// Appends the lines of all ranks to rank 0's lines(). `own`: this rank's lines, owner by owner, with end_owner()
    /// after those of each. A control call.
    void append(const std::string& own);
    static char end_owner() { return '\x1e'; }

    const Engine& engine_;

  private:
    const RankGroup& rank_group_;
    std::vector<LayerIndex> owners_;
    int64_t first_head_ = 0, end_head_ = 0;
    std::string lines_;
};

/// Makes the dump that --kv-dump requests, for a prompt of `prompt` tokens that is not read yet; null without the flag.
/// Errors: Exit::kConfig if nothing is evicted or retrieved, or for several samples.
std::unique_ptr<KvDump> make_kv_dump(const Options& options, const Engine& engine, const RankGroup& rank_group,
                                     int64_t prompt);

}  // namespace trireme
