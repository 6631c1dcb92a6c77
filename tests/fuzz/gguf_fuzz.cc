// A GGUF file: its header, tokenizer and config are read, and a slice of every tensor of its model.

#include <algorithm>
#include <vector>

#include "model/checkpoint/gguf_model.h"
#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

void read_some(const WeightSource& model) {
    for (const TensorInfo& t : model.tensors()) {
        const bool vector = t.shape.rank() == 1;
        const int64_t n = std::min<int64_t>(t.shape[0], 5), m = vector ? 1 : std::min<int64_t>(t.shape[1], 40);
        std::vector<bf16> out(static_cast<size_t>(n * m));
        const Shape shape = vector ? Shape{n} : Shape{n, m};
        model.read(t.name, t.shape[0] - n, vector ? 0 : t.shape[1] - m, HostTensor(out.data(), DType::kBF16, shape));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto source = [&] { return memory_source("fuzz.gguf", fuzz::bytes_of(data, size)); };
    fuzz::run([&] {
        const auto bytes = source();
        const GgufFile file = read_gguf(*bytes);
        for (const GgufTensor& t : file.tensors) {
            fuzz::expect(t.offset <= size && t.bytes <= size - t.offset, "a tensor outside the file");
        }
        fuzz::run([&] { gguf_tokenizer(file.metadata); });
    });
    return fuzz::run([&] { read_some(*open_gguf_model(source())); });
}
