#pragma once
/// Comparison of two tokenizers, for conversions: both give the same ids for a text of many kinds of characters and for
/// the text of every token.

#include <cstdint>
#include <optional>
#include <string>

#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Whether the tokenizer composes letters (NFC) before anything else.
bool composes_letters(const Tokenizer& tokenizer);

/// The first text for which the ids of two tokenizers differ, and how many were equal before it.
struct IdDifference {
    int64_t equal = -1;
    std::string text;
};
/// Returns nothing if no ids differ. Letters that `own` composes are not compared.
std::optional<IdDifference> first_difference(const Tokenizer& own, const Tokenizer& other);

}  // namespace trireme
