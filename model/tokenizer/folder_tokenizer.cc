#include "model/tokenizer/folder_tokenizer.h"

#include <nlohmann/json.hpp>

#include "model/files/shown.h"
#include "model/tokenizer/same_ids.h"
#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

using Ordered = nlohmann::ordered_json;

SpmPieceType type_of(const GgufTokenizer& gguf, size_t i) {
    return gguf.token_types.empty() ? SpmPieceType::kNormal : static_cast<SpmPieceType>(gguf.token_types[i]);
}

/// Tokens that are found as text before anything else.
Ordered added_tokens(const GgufTokenizer& gguf) {
    Ordered all = Ordered::array();
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        const SpmPieceType type = type_of(gguf, i);
        const bool special = type == SpmPieceType::kControl || type == SpmPieceType::kUnknown;
        if ((!special && type != SpmPieceType::kUserDefined) || !is_utf8(gguf.tokens[i])) continue;
        all.push_back({{"id", i},
                       {"content", gguf.tokens[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}});
    }
    return all;
}

Ordered byte_level() {
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
}

/// Adds the tokens that `own` puts around a text.
Ordered post_processor(const GgufTokenizer& gguf, const std::vector<int32_t>& before,
                       const std::vector<int32_t>& after) {
    if (before.empty() && after.empty()) return byte_level();
    Ordered single = Ordered::array(), tokens = Ordered::object();
    const auto add = [&](const std::vector<int32_t>& ids) {
        for (const int32_t id : ids) {
            const std::string& text = gguf.tokens[index(id)];
            single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
            tokens[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
        }
    };
    add(before);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add(after);
    Ordered pair = single;
    pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

std::string tokenizer_json(const GgufTokenizer& gguf, const std::vector<int32_t>& before,
                           const std::vector<int32_t>& after) {
    const PreTokenizerPatterns pre = pre_tokenizer_patterns(gguf);
    Ordered cuts = Ordered::array();
    for (const std::string& pattern : pre.patterns) {
        cuts.push_back(
            {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
    }
    cuts.push_back(byte_level());
    Ordered vocab = Ordered::object();
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        require(is_utf8(gguf.tokens[i]), Exit::kData,
                "{}: token {} is not UTF-8, which a tokenizer.json cannot hold; want -o NAME.h5", gguf.what, i);
        if (!gguf.tokens[i].empty()) vocab[gguf.tokens[i]] = i;
    }
    const Ordered model = {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"ignore_merges", pre.ignore_merges},
                           {"vocab", std::move(vocab)},
                           {"merges", gguf.merges}};
    const Ordered file = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added_tokens(gguf)},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", cuts}}},
                          {"post_processor", post_processor(gguf, before, after)},
                          {"decoder", byte_level()},
                          {"model", model}};
    return file.dump(1, ' ');
}

std::string tokenizer_model(const GgufTokenizer& gguf) {
    SpmModel model;
    model.model_type = SpmModel::kBpe;
    model.byte_fallback = true;
    model.add_dummy_prefix = gguf.add_space_prefix.value_or(true);
    model.remove_extra_whitespaces = false;
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        model.pieces.push_back({gguf.tokens[i], gguf.scores.at(i), type_of(gguf, i)});
    }
    const auto piece = [&](int64_t id, std::string& name) {
        if (id >= 0 && id < std::ssize(gguf.tokens)) name = gguf.tokens[index(id)];
    };
    piece(gguf.bos, model.bos_piece);
    piece(gguf.eos, model.eos_piece);
    return serialize(model);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> folder_tokenizer(const GgufTokenizer& gguf,
                                                                  const std::optional<ChatTemplate>& chat) {
    const std::unique_ptr<Tokenizer> own = make_tokenizer(gguf);
    const std::vector<int32_t> around = own->encode("", true);
    const bool begins = !around.empty() && around.front() == own->bos();
    const std::vector<int32_t> before(around.begin(), around.begin() + (begins ? 1 : 0)),
        after(around.begin() + (begins ? 1 : 0), around.end());
    const bool bpe = gguf.model == "gpt2";
    Ordered config = {{"tokenizer_class", bpe ? "PreTrainedTokenizerFast" : "LlamaTokenizer"},
                      {"add_bos_token", !before.empty()},
                      {"add_eos_token", !after.empty()},
                      {"clean_up_tokenization_spaces", false}};
    if (!bpe) config["legacy"] = true;  // as GGUF: a space also after special tokens
    const auto name = [&](const char* key, int32_t id) {
        config[key] = id < 0 ? Ordered() : Ordered(gguf.tokens[index(id)]);
    };
    name("bos_token", own->bos());
    name("eos_token", own->eos());
    if (gguf.unk >= 0 && gguf.unk < std::ssize(gguf.tokens)) name("unk_token", static_cast<int32_t>(gguf.unk));
    if (chat && chat->with_tools.empty()) {
        config["chat_template"] = chat->source;
    } else if (chat) {
        config["chat_template"] = {{{"name", "default"}, {"template", chat->source}},
                                   {{"name", "tool_use"}, {"template", chat->with_tools}}};
    }
    const std::string text = bpe ? tokenizer_json(gguf, before, after) : tokenizer_model(gguf);
    const std::string config_text = config.dump(2);
    const SpecialFiles files =
        read_special_files(gguf.what, [&](const char* file, uint64_t) -> std::optional<std::string> {
            if (std::string_view(file) == "tokenizer_config.json") return config_text;
            return {};
        });
    const auto other = bpe ? tokenizer_from_json(text, gguf.what, files) : tokenizer_from_spm(text, gguf.what, files);
    if (const auto differs = first_difference(*own, *other)) {
        fail(Exit::kData,
             "{}: the folder's tokenizer would give '{}' other ids; want -o NAME.h5, which keeps the file's", gguf.what,
             shown(differs->text));
    }
    return {{bpe ? "tokenizer.json" : "tokenizer.model", text}, {"tokenizer_config.json", config_text}};
}

}  // namespace trireme
