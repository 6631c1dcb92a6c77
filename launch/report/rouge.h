#pragma once
/// ROUGE scores of a text against a reference, for batch --rouge. The rules are those of the Python package `rouge`
/// (pltrdy, 1.0.1): sets of n-grams, words with their case and punctuation, sentences that end at a full stop.

#include <string_view>

namespace trireme {

/// Precision, recall, and their F-score 2pr / (p + r + 1e-8), each 0 to 1.
struct RougeScore {
    double p = 0, r = 0, f = 0;
};

/// ROUGE-1, ROUGE-2 and ROUGE-L.
struct Rouge {
    RougeScore one, two;  // of words, and of pairs of words
    RougeScore l;         // of longest common subsequences: their words, united over all pairs of sentences
    bool empty = false;   // the text has only full stops: scores are 0, where the package fails
};

/// Whether the text has any characters other than full stops.
bool has_sentences(std::string_view text);

/// Both texts are UTF-8. Errors: Exit::kInternal if the reference has no sentences.
Rouge rouge(std::string_view text, std::string_view reference);

}  // namespace trireme
