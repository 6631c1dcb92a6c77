#pragma once
/// The chunks that every KV head sees of a text for a chain that retrieves (--spec retrieval, triforce), by round.

#include <cstdint>
#include <string>

#include "launch/report/kv_dump.h"
#include "offload/policies/retrieval_set.h"

namespace trireme {

/// Lines: {"round":0,"layer":0,"head":0,"tokens":812,"chunk_size":8,"candidates":69,"chunks":[0,7,...]}. Round 0 is the
/// prompt's choice; of later rounds those that chose have lines. tokens: of the text when the choice was made; the head
/// sees these chunks of the first `candidates` ones, and all tokens behind the candidates. A run that resumes another
/// counts its own rounds, from 1.
class RetrievalDump final : public KvDump {
  public:
    /// Of what `set` chooses from now on; no forward has been made.
    RetrievalDump(const Engine& engine, const Crew& crew, RetrievalSet& set);

    void take() override;
    void round() override {
        ++round_;
        take();
    }
    void skip() override { taken_ = set_.choice().number; }

  private:
    std::string own_lines() const;

    const RetrievalSet& set_;
    int64_t round_ = 0, taken_ = 0;  // taken_: the number of the last choice that was taken
};

}  // namespace trireme
