// The tokenizer of a GGUF file: an accepted one gives ids inside the vocabulary, and decodes them to the same bytes. An
// input that starts with "GGUF" is a file. Any other one is a byte that selects the model, then lines. A line is a
// token (its first byte is the type; the rest is its text) or, from the first empty line on, a merge.

#include <algorithm>
#include <array>
#include <string>

#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "model/tokenizer/utf8.h"
#include "tests/fuzz/try_tokenizer.h"

using namespace trireme;

namespace {

constexpr std::array<const char*, 7> kPres = {"default", "gpt-2", "smollm", "llama-bpe", "llama-v3", "", "novel"};

/// Adds the tokens of all bytes, which most inputs do not have.
void add_bytes(GgufTokenizer& gguf) {
    uint32_t letter = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        std::string text;
        if (gguf.model == "llama") {
            text = fmt::format("<0x{:02X}>", byte);
        } else {
            const bool plain = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
            append_utf8(text, plain ? byte : letter++);
        }
        gguf.tokens.push_back(text);
        gguf.token_types.push_back(gguf.model == "llama" ? 6 : 1);
    }
}

/// Adds the space and the unknown piece that a "llama" model must have.
void add_pieces(GgufTokenizer& gguf) {
    gguf.tokens.insert(gguf.tokens.end(), {"\u2581", "<unk>"});
    gguf.token_types.insert(gguf.token_types.end(), {1, 2});
}

void add_lines(GgufTokenizer& gguf, std::string_view lines) {
    bool merges = false;
    for (size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
        end = std::min(lines.find('\n', at), lines.size());
        const std::string_view line = lines.substr(at, end - at);
        merges |= line.empty();
        if (!merges) {
            gguf.token_types.push_back(line[0] & 7);
            gguf.tokens.emplace_back(line.substr(1));
        } else if (!line.empty()) {
            gguf.merges.emplace_back(line);
        }
    }
}

GgufTokenizer from_lines(std::string_view input) {
    GgufTokenizer gguf;
    gguf.what = "x.gguf";
    const auto choice = static_cast<uint8_t>(input.empty() ? 0 : input[0]);
    gguf.model = choice % 2 == 0 ? "llama" : "gpt2";
    gguf.pre = kPres[choice / 2 % kPres.size()];
    gguf.bos = choice / 16;
    gguf.eot = choice % 16 - 1;
    gguf.add_eos = choice > 128;
    add_bytes(gguf);
    if (gguf.model == "llama") add_pieces(gguf);
    if (!input.empty()) add_lines(gguf, input.substr(1));
    if (gguf.model != "llama") return gguf;
    for (const std::string& token : gguf.tokens)  // any scores will do; some are equal
        gguf.scores.push_back(token.empty() ? 0.0f : -static_cast<float>(static_cast<uint8_t>(token.back())));
    return gguf;
}

GgufTokenizer from_file(std::span<const std::byte> bytes) {
    const auto source = memory_source("x.gguf", bytes);
    return gguf_tokenizer(read_gguf(*source).metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::string_view input = fuzz::text_of(data, size);
        const bool file = input.starts_with("GGUF");
        const auto tokenizer = make_tokenizer(file ? from_file(fuzz::bytes_of(data, size)) : from_lines(input));
        fuzz::try_tokenizer(*tokenizer, input, tokenizer->keeps_every_byte());
    });
}
