// tokenizer.json: an accepted one gives ids inside the vocabulary for any text, and decodes them. The decoded text may
// differ, because the file may normalise it.

#include "model/tokenizer/tokenizer_json.h"
#include "tests/fuzz/try_tokenizer.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::string_view input = fuzz::text_of(data, size);
        const auto tokenizer = tokenizer_from_json(input, "tokenizer.json", {});
        fuzz::try_tokenizer(*tokenizer, input, /*keeps=*/false);
    });
}
