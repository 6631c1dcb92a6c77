#include "model/checkpoint/padded_model.h"

#include <algorithm>
#include <cstddef>

namespace trireme {
namespace {

class PaddedModel final : public WeightSource {
  public:
    PaddedModel(std::unique_ptr<WeightSource> model, int64_t vocab) : model_(std::move(model)) {
        config_ = model_->config();
        config_.vocab = vocab;
        std::erase_if(config_.eos, [&](int32_t id) { return id >= vocab; });
        natural_dtype_ = model_->natural_dtype();
        for (TensorInfo t : model_->tensors()) {
            const bool by_token = t.name == "model.embed_tokens.weight" || t.name == "lm_head.weight";
            if (by_token) t.shape = {vocab, t.shape[1]};
            by_token_.push_back(by_token);
            add_tensor(std::move(t));
        }
    }

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        const std::string& name = tensors_[tensor].name;
        if (!by_token_[tensor]) return model_->read(name, row0, col0, out);
        const int64_t rows = out.rows(), there = std::clamp<int64_t>(model_->config().vocab - row0, 0, rows);
        if (there > 0) model_->read(name, row0, col0, out.first_rows(there));
        for (int64_t row = there; row < rows; ++row) model_->read(name, 0, col0, out.slice_rows(row, 1));
    }
    void do_read_blocks(size_t tensor, int64_t row0, int64_t rows, int64_t col0,
                        std::span<std::byte> out) const override {
        const std::string& name = tensors_[tensor].name;
        const int64_t all = by_token_[tensor] ? model_->config().vocab : row0 + rows;
        const int64_t there = std::clamp<int64_t>(all - row0, 0, rows);
        const size_t row_bytes = rows == 0 ? 0 : out.size() / static_cast<size_t>(rows);
        const size_t split = static_cast<size_t>(there) * row_bytes;
        if (there > 0) model_->read_blocks(name, row0, there, col0, out.first(split));
        for (size_t at = split; at < out.size(); at += row_bytes) {
            model_->read_blocks(name, 0, 1, col0, out.subspan(at, row_bytes));
        }
    }
    int64_t do_rows_together(size_t tensor) const override { return model_->rows_together(tensors_[tensor].name); }

    std::unique_ptr<WeightSource> model_;
    std::vector<bool> by_token_;  // whether a tensor of tensors_ has a row for each token
};

}  // namespace

std::unique_ptr<WeightSource> with_vocabulary(std::unique_ptr<WeightSource> model, int64_t vocab) {
    if (model->config().vocab == vocab) return model;
    return std::make_unique<PaddedModel>(std::move(model), vocab);
}

}  // namespace trireme
