#pragma once
/// KvDump: the file of --kv-dump. It has the tokens that KV heads retain, or the chunks that a chain retrieves, as JSON
/// Lines.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/run/engine.h"
#include "launch/run/rank_group.h"

namespace trireme {

/// Base class of dumps. All ranks have a dump, or none has.
class KvDump {
  public:
    virtual ~KvDump() = default;

    /// Dumps the changes since the last call. Waits for the device; makes a control call.
    virtual void take() = 0;
    /// Like take(), but called after a round.
    virtual void round() { take(); }
    /// A warm-up ran after the prompt. Its changes belong to no round and are not dumped.
    virtual void skip() = 0;
    /// The lines, in the order of rounds or steps, owner layers, and the model's KV heads. Empty except on rank 0.
    const std::string& lines() const { return lines_; }

  protected:
    KvDump(const Engine& engine, const RankGroup& rank_group);

    /// The owner layers, and the range of this rank's KV heads that no lower rank holds, numbered as in the model.
    const std::vector<LayerIndex>& owners() const { return owners_; }
    int64_t first_head() const { return first_head_; }
    int64_t end_head() const { return end_head_; }
    /// The first KV head that this rank holds, whether or not a lower rank also holds it.
    int64_t first_held() const { return engine_.weights().shard().kv_begin; }
    /// Appends the lines of all ranks. `own` are this rank's lines, with end_owner() after each owner.
    void append(const std::string& own);
    static char end_owner() { return '\x1e'; }

    const Engine& engine_;

  private:
    const RankGroup& rank_group_;
    std::vector<LayerIndex> owners_;
    int64_t first_head_ = 0, end_head_ = 0;
    std::string lines_;
};

/// Makes the dump that the flags request, before the prompt of `prompt` tokens is read; null without --kv-dump. Errors:
/// Exit::kConfig if nothing is evicted or retrieved, or for several samples.
std::unique_ptr<KvDump> make_kv_dump(const Options& options, const Engine& engine, const RankGroup& rank_group,
                                     int64_t prompt);

}  // namespace trireme
