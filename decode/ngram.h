#pragma once
/// Ngram: a proposer by n-gram lookup (--spec ngram). It proposes the tokens that followed the last tokens at their
/// previous occurrence in the sequence (Saxena, "Prompt Lookup Decoding", 2023). It needs no model and costs nothing;
/// it helps where a sequence repeats itself.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "decode/proposer.h"

namespace trireme {

class Ngram final : public Proposer {
  public:
    /// Proposes at most `gamma` tokens a round: those after the latest earlier occurrence of the sequence's last
    /// kLongest tokens, or of fewer, but at least kShortest.
    explicit Ngram(int64_t gamma) : gamma_(gamma) {}
    static constexpr size_t kShortest = 2, kLongest = 4;

    const char* name() const override { return "ngram"; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    /// A chain of min(limit, gamma) tokens, without distributions; empty if there is no earlier occurrence.
    std::span<const Proposed> propose(int64_t limit) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void state(Archive& ar) override;

  private:
    void append(int32_t token);
    void remove_last();
    uint64_t key(size_t end, size_t n) const;

    int64_t gamma_;
    size_t prompt_tokens_ = 0;
    std::vector<int32_t> text_;
    /// For each n-gram, the indices of the tokens that followed it, latest last. The sequence's last n-gram has none.
    std::unordered_map<uint64_t, std::vector<size_t>> ends_;
    std::vector<Proposed> proposal_;
};

}  // namespace trireme
