// tokenizer.json: an accepted one gives ids inside the vocabulary for any text, and decodes them. The decoded text may
// differ, because the file may normalise it. It may also be written as GGUF metadata, or be refused.

#include "model/tokenizer/gguf_export.h"
#include "model/tokenizer/tokenizer_json.h"
#include "tests/fuzz/try_tokenizer.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::string_view input = fuzz::text_of(data, size);
        const auto tokenizer = tokenizer_from_json(input, "tokenizer.json", {});
        fuzz::try_tokenizer(*tokenizer, input, /*keeps=*/false);
        if (tokenizer->vocab() > 4096) return;  // each token is encoded
        const TextOf text_of = [&](const char* name, uint64_t) {
            return std::string_view(name) == "tokenizer.json" ? std::optional<std::string>(input) : std::nullopt;
        };
        tokenizer_entries(export_tokenizer(*tokenizer, text_of, tokenizer->vocab() + 1, "tokenizer.json"), text_of);
    });
}
