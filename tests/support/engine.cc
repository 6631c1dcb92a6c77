#include "tests/support/engine.h"

#include <array>

namespace trireme::test {

Engine::Engine(const std::filesystem::path& path, const LlamaOptions& options, Comm& comm, int threads)
    : device_(open_device("cpu", threads)),
      source_(open_model(path)),
      model_(std::make_unique<Llama>(*device_, comm, *source_, options)) {}

std::vector<float> Engine::prefill_logits(std::span<const int32_t> ids) {
    std::vector<float> all;
    model_->prefill(0, ids, {}, [&](int64_t, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = 0; r < m.rows; ++r) all.insert(all.end(), m.row(r), m.row(r) + m.cols);
    });
    return all;
}

std::vector<float> Engine::step(int32_t id) {
    const std::array<Row, 1> row = {Row{.token = id, .position = static_cast<int32_t>(model_->length())}};
    constexpr std::array<int32_t, 1> kFirst = {0};
    model_->forward(row);
    model_->keep(0, kFirst);
    const Matrix<float> m = model_->logits().as<float>();
    return {m.row(0), m.row(0) + m.cols};
}

}  // namespace trireme::test
