#pragma once
/// TokenStore: a file of the token ids of many texts. `convert --tokens` writes it; commands with --data read it
/// instead of texts. It is a store (model/files/store/sets.h) of the kind "token data set":
///
///   ids           i32 [tokens]     the ids of all texts, one after another
///   offsets       i64 [texts + 1]  text t has ids [offsets[t], offsets[t + 1])
///   names         u8  [bytes]      the names of all sources, one after another
///   name_offsets  i64 [texts + 1]  text t comes from names [name_offsets[t], name_offsets[t + 1]): "book.jsonl:3"
///   about                          {"texts", "tokens", "add_special", "tokenizer": a TokenizerIdentity}
///
/// Digests prove that a store is unchanged, not who wrote it. So its numbers are checked like any file's.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/store/reader.h"
#include "model/tokenizer/tokenizer_identity.h"
#include "runtime/atomic_file.h"
#include "runtime/unnamed_file.h"

namespace trireme {

constexpr std::string_view kTokenStore = "token data set";

/// Writes texts one by one, without holding any in memory. The positions of a store's sets depend on their sizes, so
/// texts first go to files without names in the store's folder. publish() copies these files. Meanwhile the disk holds
/// the data twice, and memory a megabyte.
class TokenStoreWriter {
  public:
    /// `tokenizer`: the one that made the ids. `add_special`: the ids include the special tokens around a text. Errors:
    /// as UnnamedFile.
    TokenStoreWriter(std::filesystem::path path, IfThere old, TokenizerIdentity tokenizer, bool add_special);
    /// Adds the next text. `name`: its source ("book.jsonl:3"). Errors: Exit::kData for an id outside the vocabulary,
    /// kIo.
    void add(std::string_view name, std::span<const int32_t> ids);
    /// Writes the store, whole or not at all. `proceed` is called once per megabyte and may throw to end the work.
    /// Errors: as PartFile.
    void publish(const std::function<void()>& proceed);
    int64_t texts() const { return texts_; }
    int64_t tokens() const { return tokens_; }

  private:
    std::filesystem::path path_;
    IfThere old_;
    TokenizerIdentity tokenizer_;
    bool add_special_;
    UnnamedFile ids_, offsets_, names_, name_offsets_;
    int64_t texts_ = 0, tokens_ = 0;
};

/// Reads a token store; one thread at a time may use it. Texts are numbered from 0.
class TokenStore {
  public:
    /// Reads everything but the ids. Errors: Exit::kData if it is no such store, is damaged, or has offsets
    /// that are out of order or out of range.
    explicit TokenStore(std::unique_ptr<ByteSource> source);

    int64_t texts() const { return static_cast<int64_t>(offsets_.size()) - 1; }
    const TokenizerIdentity& tokenizer() const { return tokenizer_; }
    bool add_special() const { return add_special_; }
    const std::string& path() const { return reader_.name(); }

    /// Returns the number of ids of a text.
    int64_t length(int64_t text) const { return offsets_[at(text) + 1] - offsets_[at(text)]; }
    std::string_view name(int64_t text) const;
    /// Returns the first `most` ids of a text, or all if it has fewer. Errors: Exit::kData for an id outside the
    /// vocabulary, and for damage.
    std::vector<int32_t> ids(int64_t text, int64_t most = INT64_MAX) const;

  private:
    size_t at(int64_t text) const;  // `text`, checked, as an index of offsets_

    StoreReader reader_;
    mutable StoreRows all_ids_;  // texts are mostly read in order
    TokenizerIdentity tokenizer_;
    bool add_special_ = false;
    std::vector<int64_t> offsets_, name_offsets_;  // [texts + 1], checked
    std::string names_;
};

}  // namespace trireme
