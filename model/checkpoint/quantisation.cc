#include "model/checkpoint/quantisation.h"

#include "model/files/keys.h"
#include "model/files/limits.h"

namespace trireme {
namespace {

constexpr std::string_view kInstead = "take a GGUF of the model, or its F32, F16 or BF16 safetensors";

/// One 'quantization_config', or an object in it.
class Options {
  public:
    Options(const Json& json, std::string_view what, std::string method)
        : keys_(json, what), what_(what), method_(std::move(method)) {}

    const Keys& keys() const { return keys_; }
    const std::string& method() const { return method_; }

    [[noreturn]] void refuse(std::string_view option, const std::string& value, std::string_view supported) const {
        fail(Exit::kData, "{}: 'quantization_config' of {}: {} is {}; supported: {}; {}", what_, shown(method_), option,
             value, supported, kInstead);
    }
    /// Refuses a key with any value but `supported`. A missing key is accepted.
    void require_number(const char* key, int64_t supported) const {
        const auto value = keys_.integer(key);
        if (value && *value != supported) refuse(key, fmt::format("{}", *value), fmt::format("{}", supported));
    }
    void require_flag(const char* key, bool supported) const {
        const auto value = keys_.boolean(key);
        if (value && *value != supported) refuse(key, *value ? "true" : "false", supported ? "true" : "false");
    }
    void require_text(const char* key, std::string_view supported) const {
        const auto value = keys_.string(key);
        if (value && *value != supported) refuse(key, shown(*value), supported);
    }
    /// Refuses an object or a list that has entries, and any other value.
    void require_none(const char* key) const {
        const Json* value = keys_.find(key);
        if (value != nullptr && (!value->is_structured() || !value->empty())) refuse(key, Keys::text(*value), "none");
    }
    /// Columns that share a scale, by this key; -1 and 0 mean all.
    int64_t group(const char* key) const {
        const int64_t group = keys_.required(keys_.integer(key), key);
        if (group == -1 || group == 0) return 0;
        if (group < 0 || group % 32 != 0 || group > limits::kDim) {
            refuse(key, fmt::format("{}", group), "multiples of 32, and -1");
        }
        return group;
    }
    void four_bits(const char* key) const {
        const int64_t bits = keys_.required(keys_.integer(key), key);
        if (bits != 4) refuse(key, fmt::format("{}", bits), "4");
    }

  private:
    Keys keys_;
    std::string_view what_;
    std::string method_;
};

Quantisation read_gptq(const Options& o) {
    o.four_bits("bits");
    o.require_none("dynamic");
    o.require_flag("is_marlin_format", false);
    const char* key = o.keys().find("checkpoint_format") != nullptr ? "checkpoint_format" : "format";
    const std::string format = o.keys().string(key).value_or("gptq");
    if (format != "gptq" && format != "gptq_v2") o.refuse(key, shown(format), "gptq, gptq_v2");
    return {.as = PackedAs::kGptq,
            .group = o.group("group_size"),
            .zero_shift = format == "gptq" ? 1 : 0,
            .reordered = o.keys().boolean("desc_act").value_or(false)};
}

Quantisation read_awq(const Options& o) {
    o.four_bits(o.keys().find("bits") != nullptr ? "bits" : "w_bit");
    const std::string version = o.keys().string("version").value_or("gemm");
    if (version != "gemm" && version != "GEMM") o.refuse("version", shown(version), "gemm");
    o.require_flag("zero_point", true);
    if (o.keys().string("backend").value_or("") == "llm-awq") o.refuse("backend", "llm-awq", "autoawq");
    return {.as = PackedAs::kAwq,
            .group = o.group(o.keys().find("group_size") != nullptr ? "group_size" : "q_group_size")};
}

/// The block of a scale: [rows, columns].
void read_block(const Options& o, const char* key, Quantisation& q) {
    const Json* block = o.keys().find(key);
    if (block == nullptr) return;
    const bool two =
        block->is_array() && block->size() == 2 && (*block)[0].is_number_unsigned() && (*block)[1].is_number_unsigned();
    if (two) {
        q.block_rows = (*block)[0].get<int64_t>();
        q.block_cols = (*block)[1].get<int64_t>();
    }
    if (!two || q.block_rows < 1 || q.block_cols < 32 || q.block_cols % 32 != 0 || q.block_rows > limits::kDim ||
        q.block_cols > limits::kDim) {
        o.refuse(key, block->dump(), "[rows, columns], with a multiple of 32 columns");
    }
}

Quantisation read_fp8(const Options& o) {
    Quantisation q = {.as = PackedAs::kFP8};
    o.require_text("fmt", "e4m3");
    read_block(o, "weight_block_size", q);
    return q;
}

Quantisation read_compressed(const Options& o, std::string_view what) {
    const std::string format = o.keys().string("format").value_or("missing");
    if (format != "pack-quantized" && format != "float-quantized") {
        o.refuse("format", shown(format), "pack-quantized, float-quantized");
    }
    o.require_none("transform_config");
    if (const Json* sparsity = o.keys().find("sparsity_config"); sparsity != nullptr && !sparsity->empty()) {
        const std::string sparse = Keys(*sparsity, what).string("format").value_or("dense");
        if (sparse != "dense") o.refuse("sparsity_config", shown(sparse), "dense");
    }
    const Json* groups = o.keys().find("config_groups");
    if (groups == nullptr || !groups->is_object() || groups->size() != 1) {
        o.refuse("config_groups", groups == nullptr ? "missing" : fmt::format("of {} groups", groups->size()),
                 "one group");
    }
    const Keys group(groups->begin().value(), what);
    const Json* weights = group.find("weights");
    if (weights == nullptr) o.refuse("weights", "missing", "a group with weights");
    const Options w(*weights, what, o.method());
    const std::string type = w.keys().string("type").value_or("int"),
                      strategy = w.keys().string("strategy").value_or("missing");
    if (const Json* order = w.keys().find("actorder");
        order != nullptr && *order != false && *order != "weight" && *order != "static") {
        w.refuse("actorder (act-order)", Keys::text(*order), "none");
    }
    if (format == "float-quantized") {
        if (type != "float") w.refuse("type", shown(type), "float");
        w.require_number("num_bits", 8);
        Quantisation q = {.as = PackedAs::kFP8};
        if (strategy == "block") {
            read_block(w, "block_structure", q);
        } else if (strategy != "tensor" && strategy != "channel") {
            w.refuse("strategy", shown(strategy), "tensor, channel, block");
        }
        return q;
    }
    if (type != "int") w.refuse("type", shown(type), "int");
    w.four_bits("num_bits");
    Quantisation q = {.as = PackedAs::kCompressed, .zero_points = !w.keys().boolean("symmetric").value_or(true)};
    if (strategy == "group") {
        q.group = w.group("group_size");
    } else if (strategy != "channel") {
        w.refuse("strategy", shown(strategy), "group, channel");
    }
    return q;
}

}  // namespace

Quantisation read_quantisation(const Json& config, std::string_view what) {
    const Json* found = Keys(config, what).find("quantization_config");
    if (found == nullptr) found = Keys(config, what).find("compression_config");
    if (found == nullptr) return {};
    const bool named = found->is_object() && found->contains("quant_method") && (*found)["quant_method"].is_string();
    const std::string method = named ? (*found)["quant_method"].get<std::string>() : "";
    if (named) {
        const Options o(*found, what, method);
        if (method == "gptq") return read_gptq(o);
        if (method == "awq") return read_awq(o);
        if (method == "compressed-tensors") return read_compressed(o, what);
        if (method == "fp8" || method == "fbgemm_fp8") return read_fp8(o);
    }
    fail(Exit::kData,
         "{}: 'quantization_config' has quant_method {}; supported: gptq, awq, compressed-tensors, fp8, fbgemm_fp8; {}",
         what, found->is_object() && found->contains("quant_method") ? Keys::text((*found)["quant_method"]) : "none",
         kInstead);
}

}  // namespace trireme
