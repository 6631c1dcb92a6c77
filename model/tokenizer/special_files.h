#pragma once
/// SpecialFiles: what the small files next to a tokenizer.json or tokenizer.model say. They name the tokens that begin
/// and end a sequence, and tokens that were added later.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/tokenizer/token_table.h"

namespace trireme {

/// The content of tokenizer_config.json, special_tokens_map.json, added_tokens.json, generation_config.json and
/// config.json. Every file may be missing; an earlier one has precedence over a later one.
struct SpecialFiles {
    std::optional<std::string> bos, eos;   // the tokens' texts, if a file names them
    std::optional<bool> add_bos, add_eos;  // whether they are put around a text, if a file says so
    std::optional<bool> add_prefix_space;  // if a file has it
    bool legacy = false;                   // tokenizer.model: a space also before the first word after a special token
    std::optional<int64_t> bos_id;         // from generation_config.json or config.json
    std::vector<int64_t> eos_ids;          // from generation_config.json or config.json
    std::vector<AddedToken> added;         // ids in [0, limits::kVocab)
    std::string what;                      // the folder or store, for messages

    /// Sets bos, eos, eos_ids, before and after of a table that has its pieces and added tokens. A token's text has
    /// precedence over the table's own value, and that over bos_id and eos_ids. `find(text)` returns a token's id, -1
    /// for none. Errors: Exit::kData for a text that the vocabulary does not have.
    template <class Find>
    void apply(TokenTable& table, Find&& find) const {
        if (bos) table.bos = named("bos_token", *bos, find(*bos));
        if (!bos && table.bos < 0 && bos_id) table.bos = in_vocab("bos_token_id", *bos_id, table);
        if (eos) table.eos = named("eos_token", *eos, find(*eos));
        for (size_t i = 0; !eos && table.eos < 0 && i < eos_ids.size(); ++i) {
            table.eos = in_vocab("eos_token_id", eos_ids[i], table);
        }
        table.set_ends(eos_ids, what);
        if (add_bos) set_around(table.before, *add_bos, table.bos);
        if (add_eos) set_around(table.after, *add_eos, table.eos);
    }

  private:
    /// Returns `id`. Errors: it is -1; `field` and `text` are for the message.
    int32_t named(const char* field, const std::string& text, int32_t id) const;
    /// Returns the id, or -1 if the vocabulary does not have it.
    int32_t in_vocab(const char* field, int64_t id, const TokenTable& table) const;
    /// Empties `ids`, and adds `id` if the flag is true. Like the reference, adds nothing if the id is -1.
    static void set_around(std::vector<int32_t>& ids, bool wanted, int32_t id);
};

/// Reads those of the five files that `folder` has. Errors: Exit::kData, kIo.
SpecialFiles read_special_files(const std::filesystem::path& folder);
/// Like read_special_files(folder), for a model in a store. `model` names it in messages. `text_of(name, most)` returns
/// a file's text of at most `most` bytes, nothing if there is no such file.
SpecialFiles read_special_files(
    const std::string& model,
    const std::function<std::optional<std::string>(const char* name, uint64_t most)>& text_of);

}  // namespace trireme
