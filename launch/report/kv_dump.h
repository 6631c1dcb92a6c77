#pragma once
/// --kv-dump: which tokens KV heads keep, or which chunks a chain retrieves, a JSON object a line.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/run/crew.h"
#include "launch/run/engine.h"

namespace trireme {

/// All ranks have one, or none.
class KvDump {
  public:
    virtual ~KvDump() = default;

    /// Takes what has changed since the last call. Waits for the device; makes a control call.
    virtual void take() = 0;
    /// The same behind a round.
    virtual void round() { take(); }
    /// A warm-up ran behind the prompt: what it changed belongs to no round.
    virtual void skip() {}
    /// In the order of rounds or steps, layers that have keys and values, and the model's KV heads. On rank 0; empty on
    /// the others.
    const std::string& lines() const { return lines_; }

  protected:
    KvDump(const Engine& engine, const Crew& crew);

    /// Layers that have keys and values, and this rank's KV heads that no lower rank holds: their numbers in the model.
    const std::vector<LayerIndex>& owners() const { return owners_; }
    int64_t first_head() const { return first_head_; }
    int64_t end_head() const { return end_head_; }
    int64_t first_held() const { return engine_.weights().shard().kv_begin; }
    /// Appends lines of all ranks: `own` is what this rank has, with end_owner() behind each owner.
    void append(const std::string& own);
    static char end_owner() { return '\x1e'; }

    const Engine& engine_;

  private:
    const Crew& crew_;
    std::vector<LayerIndex> owners_;
    int64_t first_head_ = 0, end_head_ = 0;
    std::string lines_;
};

/// That of a run's flags, before its prompt is read; null: --kv-dump is not given. `prompt`: its tokens.
/// Errors: Exit::kConfig where nothing is kept or retrieved, or of several samples.
std::unique_ptr<KvDump> make_kv_dump(const Options& options, const Engine& engine, const Crew& crew, int64_t prompt);

}  // namespace trireme
