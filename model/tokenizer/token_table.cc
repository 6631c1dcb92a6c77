#include "model/tokenizer/token_table.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {

int32_t TokenTable::id_of_added(std::string_view text) const {
    const auto found = std::find_if(added.begin(), added.end(), [&](const AddedToken& t) { return t.text == text; });
    return found == added.end() ? -1 : found->id;
}

void TokenTable::set_ends(const std::vector<int64_t>& ends, std::string_view what) {
    const auto vocab = static_cast<int64_t>(pieces.size());
    eos_ids.clear();
    if (eos >= 0) eos_ids.push_back(eos);
    for (const int64_t id : ends) {
        if (id >= 0 && id < vocab) {
            eos_ids.push_back(static_cast<int32_t>(id));
        } else {
            log::debug("{}: end-of-text id {} is not in the vocabulary of {}; it is ignored", what, id, vocab);
        }
    }
    std::sort(eos_ids.begin(), eos_ids.end());
    eos_ids.erase(std::unique(eos_ids.begin(), eos_ids.end()), eos_ids.end());
}

TableTokenizer::TableTokenizer(TokenTable table)
    : table_(std::move(table)), is_added_(table_.pieces.size()), is_special_(table_.pieces.size()) {
    const auto in_vocab = [&](int32_t id) { return id >= 0 && id < vocab(); };
    const auto absent_or_in_vocab = [&](int32_t id) { return id == -1 || in_vocab(id); };
    check(absent_or_in_vocab(table_.bos) && absent_or_in_vocab(table_.eos), "bos {} or eos {} is not in [0, {})",
          table_.bos, table_.eos, vocab());
    for (const auto* ids : {&table_.before, &table_.after, &table_.eos_ids})
        check(std::all_of(ids->begin(), ids->end(), in_vocab), "a special id is not in [0, {})", vocab());
    std::vector<AddedToken> raw;
    for (const AddedToken& token : table_.added) {
        check(in_vocab(token.id), "added token {} is not in [0, {})", token.id, vocab());
        is_added_[index(token.id)] = true;
        is_special_[index(token.id)] = token.special;
        if (!token.normalized) raw.push_back(token);
    }
    matcher_ = TokenMatcher(std::move(raw));
}

std::vector<int32_t> TableTokenizer::encode(std::string_view text, bool add_special) const {
    std::vector<int32_t> ids;
    if (add_special) ids = table_.before;
    bool prefix = table_.prefix != PrefixSpace::kNone;
    for (const Segment& segment : matcher_.split(text)) {
        if (segment.id >= 0) {
            ids.push_back(segment.id);
        } else {
            encode_plain(segment.text, prefix, ids);
        }
        prefix = table_.prefix == PrefixSpace::kAfterTokens && segment.id >= 0;
    }
    if (add_special) ids.insert(ids.end(), table_.after.begin(), table_.after.end());
    return ids;
}

LeftOut TableTokenizer::left_out(std::string_view text) const {
    LeftOut all;
    for (const Segment& segment : matcher_.split(text)) {
        if (segment.id >= 0) continue;
        const LeftOut here = left_out_of_plain(segment.text);
        if (all.bytes == 0) all = {0, here.first, segment.text.data() - text.data() + here.offset};
        all.bytes += here.bytes;
    }
    return all.bytes > 0 ? all : LeftOut();
}

std::string TableTokenizer::piece(int32_t id) const {
    require(id >= 0, Exit::kData, "token id {} is negative", id);
    return id < vocab() ? table_.pieces[index(id)] : std::string();
}

std::string TableTokenizer::decode(std::span<const int32_t> ids) const {
    std::string text;
    bool prefix = table_.prefix != PrefixSpace::kNone;
    for (const int32_t id : ids) {
        const std::string bytes = piece(id);
        const bool added = is_added(id);
        text += prefix && !added && bytes.starts_with(' ') ? std::string_view(bytes).substr(1) : bytes;
        prefix = table_.prefix == PrefixSpace::kAfterTokens && added;
    }
    return text;
}

bool TableTokenizer::is_special(int32_t id) const {
    return id >= 0 && id < vocab() && is_special_[index(id)];
}

}  // namespace trireme
