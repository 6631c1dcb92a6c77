#pragma once
/// Prompt lookup: what followed the last tokens where they stood before is proposed again (Saxena, "Prompt Lookup
/// Decoding", 2023). It needs no model and costs nothing; texts that quote themselves gain by it.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "decode/proposer.h"

namespace trireme {

class Ngram final : public Proposer {
  public:
    /// At most `length` tokens a round, behind the latest place where the text's last kLongest tokens, or fewer, but at
    /// least kShortest, stood before.
    explicit Ngram(int64_t length) : length_(length) {}
    static constexpr size_t kShortest = 2, kLongest = 4;

    const char* name() const override { return "ngram"; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    std::span<const Proposed> propose(int64_t limit) override;
    void commit(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void state(Archive& ar) override;

  private:
    void append(int32_t token);
    void remove_last();
    uint64_t key(size_t end, size_t n) const;

    int64_t length_;
    size_t prompt_tokens_ = 0;
    std::vector<int32_t> text_;
    /// Of every n-gram: where the text goes on behind it, latest last, but for the text's end.
    std::unordered_map<uint64_t, std::vector<size_t>> ends_;
    std::vector<Proposed> proposal_;
};

}  // namespace trireme
