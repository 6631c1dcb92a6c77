// tokenizer.json: what is accepted gives ids inside the vocabulary for any text, and decodes them. A text need not come
// back: the file may say how it is normalised.

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
