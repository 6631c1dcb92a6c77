#pragma once
/// RetrievalDump: the dump (--kv-dump) of the chunks that every KV head selects for a chain that retrieves, by round.

#include <cstdint>
#include <string>

#include "launch/report/kv_dump.h"
#include "offload/retrieved/retrieval_set.h"

namespace trireme {

/// Lines: {"round":0,"layer":0,"head":0,"tokens":812,"chunk_size":8,"candidates":69,"chunks":[0,7,...]}. Round 0 is the
/// selection after the prompt; later rounds have lines if they selected again. "tokens" is the sequence's length at the
/// selection. "chunks" are indices: chunk i has tokens [i * chunk_size, (i + 1) * chunk_size). The head sees these
/// chunks among the first `candidates` ones, and all tokens after the candidates. A run that resumes another counts its
/// own rounds, from 1.
class RetrievalDump final : public KvDump {
  public:
    /// `set` must record its selections (RetrievalShape::recorded).
    RetrievalDump(const Engine& engine, const RankGroup& rank_group, const RetrievalSet& set);

    void take() override;
    void round() override {
        ++round_;
        take();
    }
    void skip() override { taken_ = set_.choice().number; }

  private:
    std::string own_lines() const;

    const RetrievalSet& set_;
    int64_t round_ = 0, taken_ = 0;  // taken_: the number of the last dumped selection
};

}  // namespace trireme
