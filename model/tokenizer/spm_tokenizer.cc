#include "model/tokenizer/spm_tokenizer.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/utf8.h"
#include "runtime/index.h"

namespace trireme {
namespace {

constexpr size_t kSpmPartBytes = 256;

/// A character that is no piece itself, but may be part of one.
constexpr int32_t kNoPiece = std::numeric_limits<int32_t>::max();

std::vector<uint32_t> ranks_of(const std::vector<SpmPiece>& pieces) {
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].score > pieces[b].score; });
    std::vector<uint32_t> ranks(pieces.size());
    uint32_t rank = 0;
    for (size_t i = 1; i < order.size(); ++i) {
        if (pieces[order[i]].score < pieces[order[i - 1]].score) ++rank;
        ranks[order[i]] = rank;
    }
    return ranks;
}

}  // namespace

SpmTokenizer::SpmTokenizer(TokenTable table, const std::vector<SpmPiece>& pieces)
    : TableTokenizer(std::move(table)), ranks_(ranks_of(pieces)) {
    std::vector<AddedToken> user_defined;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const SpmPiece& piece = pieces[i];
        const auto id = static_cast<int32_t>(i);
        if (piece.type == SpmPieceType::kByte) byte_ids_[index(byte_of_piece(piece.text))] = id;
        if (piece.type == SpmPieceType::kUserDefined && piece.text.find(kSpmSpace) != std::string::npos) {
            user_defined.emplace_back();
            user_defined.back().text = piece.text;
            user_defined.back().id = id;
        }
        if (piece.type != SpmPieceType::kNormal && piece.type != SpmPieceType::kUnused) continue;
        ids_.emplace(piece.text, id);
        cuts_.add_token(piece.text);
        longest_ = std::max(longest_, piece.text.size());
    }
    user_defined_ = TokenMatcher(std::move(user_defined));
}

void SpmTokenizer::encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const {
    std::string escaped(prefix ? kSpmSpace : "");
    for (const char c : text) c == ' ' ? escaped += kSpmSpace : escaped += c;
    Merger merger;
    for (const Segment& segment : user_defined_.split(escaped)) {
        if (segment.id >= 0) {
            ids.push_back(segment.id);
            continue;
        }
        for (std::string_view rest = segment.text; !rest.empty();) {
            const size_t size = cuts_.part(rest, kSpmPartBytes);
            encode_escaped(rest.substr(0, size), merger, ids);
            rest.remove_prefix(size);
        }
    }
}

void SpmTokenizer::encode_escaped(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const {
    merger.clear();
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_length(text.substr(at));
        const auto found = ids_.find(text.substr(at, length));
        const int32_t id = length == 0 ? -1 : found == ids_.end() ? kNoPiece : found->second;
        merger.add(at, std::max<size_t>(1, length), id);
        at += std::max<size_t>(1, length);
    }
    merger.run([&](const Symbol& left, const Symbol& right) -> std::optional<Join> {
        if (left.size + right.size > longest_) return std::nullopt;
        const auto found = ids_.find(text.substr(left.begin, left.size + right.size));
        if (found == ids_.end()) return std::nullopt;
        return Join{ranks_[index(found->second)], found->second};
    });
    merger.for_each([&](const Symbol& symbol) {
        if (symbol.id >= 0 && symbol.id != kNoPiece) return ids.push_back(symbol.id);
        for (const char byte : text.substr(symbol.begin, symbol.size))
            ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    });
}

}  // namespace trireme
