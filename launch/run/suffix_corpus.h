#pragma once
/// Reader of --suffix-corpus: texts that --spec suffix searches.

#include <memory>
#include <string>

#include "decode/suffix_automaton.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Texts of a corpus, one after the other; proposals do not continue from one into the next.
struct SuffixCorpus {
    SuffixAutomaton text;
    std::string digest;  // of its ids
};

/// Reads the texts of a file or folder: .txt files, and .jsonl lines with prompt, text, input_ids, or the choices of a
/// line that `batch` has written. Errors: as for_texts; Exit::kNoInput without a tokenizer where one is required;
/// kConfig for an id outside the vocabulary of `vocab` tokens, for stdin, and for more than kMostCorpus tokens.
std::shared_ptr<const SuffixCorpus> read_suffix_corpus(const std::string& path, const Tokenizer* tokenizer,
                                                       int64_t vocab);
inline constexpr int64_t kMostCorpus = int64_t{16} << 20;

}  // namespace trireme
