#include "model/checkpoint/gguf_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model/checkpoint/file_model.h"
#include "model/files/gguf_parts.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr std::string_view kFactors = "rope_freqs.weight", kShortFactors = "rope_factors_short.weight",
                           kLongFactors = "rope_factors_long.weight";

class GgufModel final : public FileModel {
  public:
    explicit GgufModel(std::vector<std::unique_ptr<ByteSource>> parts) : parts_(std::move(parts)) {
        const GgufFile file = read_gguf_parts(parts_);
        const std::string& what = parts_.front()->name();
        config_ = gguf_config(file);

        std::map<std::string_view, const GgufTensor*> found;
        for (const GgufTensor& t : file.tensors) found.emplace(t.name, &t);
        TensorProblems problems;
        take_expected(found, in_gguf, problems,
                      [this](const ExpectedTensor& want, const FileTensor& there, const GgufTensor* t,
                             TensorProblems& report) { take(want, there, *t, report); });
        const std::pair<std::string_view, std::vector<float>*> factors[] = {
            {kFactors, &config_.rope.factors},
            {kShortFactors, &config_.rope.short_factors},
            {kLongFactors, &config_.rope.long_factors}};
        for (const auto& [name, to] : factors) {
            if (const auto it = found.find(name); it != found.end()) {
                take_factors(*it->second, *to, problems);
                found.erase(it);
            }
        }
        set_longrope(what);
        for (const auto& [name, tensor] : found) {
            if (name.ends_with(".attn_rot_embd.weight")) {  // old converters kept the rotary buffers
                log::debug("{}: tensor '{}' is not used", what, shown(name));
            } else {
                problems.add(name, "nothing", "a tensor a model of these keys does not have");
            }
        }
        problems.raise(what);
        validate(config_, what);
    }

  private:
    StoredMatrix matrix(const GgufTensor& t) const {
        const bool vector = t.dims.size() == 1;
        return {.source = parts_[t.part].get(),
                .offset = t.offset,
                .type = *t.type,
                .rows = vector ? 1 : static_cast<int64_t>(t.dims[0]),
                .cols = static_cast<int64_t>(t.dims.back())};
    }

    void take(const ExpectedTensor& want, const FileTensor& there, const GgufTensor& t, TensorProblems& problems) {
        const bool pairs = paired_in_gguf(*config_.family, want.name), vector = want.shape.rank() == 1;
        // Elements of a paired vector are read one by one: blocks of a quantised type cannot be.
        const bool supported = t.type.has_value() && !(pairs && vector && is_quantised(*t.type));
        if (!problems.compare({there.name, there.shape}, supported, t.type_name, t.dims)) return;
        StoredMatrix m = matrix(t);
        if (pairs) m.paired_rows = config_.head_dim;
        m.first_row = there.row0;
        if (!vector) m.rows = want.shape[0];
        if (pairs && vector) std::swap(m.rows, m.cols);
        add_slice(want, m);
    }

    void take_factors(const GgufTensor& t, std::vector<float>& to, TensorProblems& problems) {
        const ExpectedTensor want{t.name, Shape{config_.rope.dim(config_.head_dim) / 2}};
        if (!problems.compare(want, t.type == StoredType::kF32, t.type_name, t.dims)) return;
        to.resize(static_cast<size_t>(want.shape[0]));
        read_slice(matrix(t), t.name, 0, 0, HostTensor(to.data(), DType::kF32, want.shape));
    }

    /// Files with two sets of factors have longrope; they have no key for it.
    void set_longrope(const std::string& what) {
        RopeConfig& r = config_.rope;
        if (r.short_factors.empty() && r.long_factors.empty()) return;
        require(r.short_factors.size() == r.long_factors.size() && r.factors.empty() && r.scaling == RopeScaling::kNone,
                Exit::kData, "{}: {} and {} contradict other rotary settings", what, kShortFactors, kLongFactors);
        r.scaling = RopeScaling::kLongrope;
        r.factor = std::max(1.0, static_cast<double>(config_.context) / static_cast<double>(r.original_context));
        if (r.attention_factor == 0) r.attention_factor = longrope_scale(r.factor, r.original_context);
        r.choose_factors(config_.context);
    }

    std::vector<std::unique_ptr<ByteSource>> parts_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf_model(std::vector<std::unique_ptr<ByteSource>> parts) {
    return std::make_unique<GgufModel>(std::move(parts));
}

std::unique_ptr<WeightSource> open_gguf_model(std::unique_ptr<ByteSource> source) {
    std::vector<std::unique_ptr<ByteSource>> one;
    one.push_back(std::move(source));
    return open_gguf_model(std::move(one));
}

}  // namespace trireme
