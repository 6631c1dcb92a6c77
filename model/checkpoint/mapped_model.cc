#include "model/checkpoint/mapped_model.h"

#include <algorithm>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/layer_sharing.h"
#include "runtime/error.h"

namespace trireme {
namespace {

class MappedModel final : public WeightSource {
  public:
    MappedModel(std::unique_ptr<WeightSource> model, std::string_view map, int64_t wider) : model_(std::move(model)) {
        config_ = model_->config();
        if (!map.empty()) set_layer_map(config_, map, "the layer map");
        config_.sliding_window += wider;
        natural_dtype_ = model_->natural_dtype();
        TensorProblems problems;
        for (const ExpectedTensor& want : expected_tensors(config_)) {
            const auto& all = model_->tensors();
            const auto it = std::ranges::find(all, want.name, &TensorInfo::name);
            if (it == all.end()) {
                problems.add(want.name, fmt::format("{}", want.shape), "missing");
            } else {
                add_tensor(*it);
            }
        }
        problems.raise(config_.layer_map.text());
    }

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        model_->read(tensors_[tensor].name, row0, col0, out);
    }
    void do_read_blocks(size_t tensor, int64_t row0, int64_t rows, int64_t col0,
                        std::span<std::byte> out) const override {
        model_->read_blocks(tensors_[tensor].name, row0, rows, col0, out);
    }
    int64_t do_rows_together(size_t tensor) const override { return model_->rows_together(tensors_[tensor].name); }

    std::unique_ptr<WeightSource> model_;
};

}  // namespace

std::unique_ptr<WeightSource> with_layer_map(std::unique_ptr<WeightSource> model, std::string_view map, int64_t wider) {
    if (map.empty() && wider == 0) return model;
    return std::make_unique<MappedModel>(std::move(model), map, wider);
}

}  // namespace trireme
