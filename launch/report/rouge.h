#pragma once
/// ROUGE of a text against a reference, with the rules of the Python package `rouge` (pltrdy, 1.0.1): sets of n-grams,
/// words with their case and punctuation, sentences that end at a full stop.

#include <string_view>

namespace trireme {

/// Precision, recall, and 2pr / (p + r + 1e-8).
struct RougeScore {
    double p = 0, r = 0, f = 0;
};

struct Rouge {
    RougeScore one, two;  // of words, and of pairs of words
    RougeScore l;         // of longest common subsequences: their words, united over all pairs of sentences
    bool empty = false;   // the text has only full stops: scores are 0, where the package fails
};

/// Whether the text has any characters besides full stops.
bool has_sentences(std::string_view text);

/// Both texts are UTF-8. Errors: Exit::kInternal if the reference has no sentences.
Rouge rouge(std::string_view text, std::string_view reference);

}  // namespace trireme
