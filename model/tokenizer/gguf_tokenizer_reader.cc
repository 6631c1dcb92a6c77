#include "model/tokenizer/gguf_tokenizer_reader.h"

#include "model/files/gguf_file.h"
#include "model/files/limits.h"
#include "runtime/error.h"

namespace trireme {
namespace {

std::string key(const char* name) {
    return std::string("tokenizer.ggml.") + name;
}

template <class T>
std::vector<T> narrowed(const GgufMetadata& m, const char* name, int64_t least, int64_t most) {
    std::vector<T> out;
    for (const int64_t v : m.integers(key(name))) {
        require(v >= least && v <= most, Exit::kData, "{}: '{}' holds {}, outside [{}, {}]", m.what(), key(name), v,
                least, most);
        out.push_back(static_cast<T>(v));
    }
    return out;
}

}  // namespace

GgufTokenizer gguf_tokenizer(const GgufMetadata& m) {
    GgufTokenizer t;
    t.what = m.what();
    t.model = m.required_string(key("model"));
    t.pre = m.string(key("pre")).value_or("");
    t.tokens = m.strings(key("tokens"));
    require(t.tokens.size() <= static_cast<size_t>(limits::kVocab), Exit::kData, "{}: {} tokens, at most {} are read",
            m.what(), t.tokens.size(), limits::kVocab);
    for (const double s : m.numbers(key("scores"))) t.scores.push_back(static_cast<float>(s));
    t.token_types = narrowed<int32_t>(m, "token_type", INT32_MIN, INT32_MAX);
    t.merges = m.strings(key("merges"));
    t.bos = m.integer(key("bos_token_id")).value_or(-1);
    t.eos = m.integer(key("eos_token_id")).value_or(-1);
    t.eot = m.integer(key("eot_token_id")).value_or(-1);
    t.eom = m.integer(key("eom_token_id")).value_or(-1);
    t.unk = m.integer(key("unknown_token_id")).value_or(-1);
    t.add_bos = m.boolean(key("add_bos_token"));
    t.add_eos = m.boolean(key("add_eos_token"));
    t.add_space_prefix = m.boolean(key("add_space_prefix"));
    t.remove_extra_whitespaces = m.boolean(key("remove_extra_whitespaces")).value_or(false);
    t.precompiled_charsmap = narrowed<uint8_t>(m, "precompiled_charsmap", 0, 255);
    return t;
}

GgufTokenizer read_gguf_tokenizer(const std::filesystem::path& path) {
    return read_gguf_tokenizer(*open_file(path));
}

GgufTokenizer read_gguf_tokenizer(const ByteSource& source) {
    const GgufFile file = read_gguf(source);
    source.check_unchanged();
    return gguf_tokenizer(file.metadata);
}

}  // namespace trireme
