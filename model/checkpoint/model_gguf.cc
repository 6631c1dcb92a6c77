#include "model/checkpoint/model_gguf.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "model/checkpoint/gguf_keys.h"
#include "model/checkpoint/tensor_names.h"
#include "model/files/gguf_file.h"
#include "model/files/slice_reader.h"
#include "model/files/store/stored_files.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr std::string_view kFileTypeKey = "general.file_type", kVersionKey = "general.quantization_version";
constexpr uint32_t kQuantisationVersion = 2;  // of ggml's blocks, since 2023

/// Whether every matrix keeps its type.
bool keeps_types(const Conversion& model) {
    return std::ranges::all_of(model.tensors(), [](const Conversion::Tensor& t) {
        return t.shape.rank() == 1 || (t.written == t.source && in_gguf_files(t.written));
    });
}

/// The metadata of the GGUF file from which the model came, without what the new file says itself; else nothing.
/// `same_types`: it says which types the file has.
std::optional<GgufEntries> own_metadata(const Conversion& model, bool same_types) {
    for (const ModelFile& file : model.files()) {
        if (file.name != kStoredGguf) continue;
        const auto source = memory_source(file.name, std::as_bytes(std::span(file.bytes)));
        return copy_entries(*source, read_gguf(*source), [&](std::string_view key) {
            const bool of_types = key == kFileTypeKey || key == kVersionKey;
            return (of_types && !same_types) || key == "general.alignment" || key.starts_with("split.");
        });
    }
    return {};
}

StoredType type_of(const Conversion::Tensor& t) {
    if (t.shape.rank() == 1) return StoredType::kF32;
    return in_gguf_files(t.written) ? t.written : StoredType::kF16;
}

/// Reorders rows of whole heads from rotate-half order to pairs (0, h/2), (1, h/2 + 1), ...
void to_pairs(std::span<std::byte> rows, size_t row_bytes, size_t head_dim) {
    std::vector<std::byte> head(head_dim * row_bytes);
    for (size_t at = 0; at < rows.size(); at += head.size()) {
        std::memcpy(head.data(), rows.data() + at, head.size());
        for (size_t r = 0; r < head_dim; ++r) {
            const auto stored =
                static_cast<size_t>(paired_row(static_cast<int64_t>(r), static_cast<int64_t>(head_dim)));
            std::memcpy(rows.data() + at + stored * row_bytes, head.data() + r * row_bytes, row_bytes);
        }
    }
}

/// The number in 'general.file_type': for blocks without a wish, that of the first mixture with the most frequent type.
uint32_t file_type_of(const Conversion& model) {
    if (model.wish().quantise != nullptr) return model.wish().quantise->number;
    std::map<StoredType, int64_t> elements;
    for (const Conversion::Tensor& t : model.tensors()) {
        if (t.shape.rank() == 2) elements[type_of(t)] += t.shape.elements();
    }
    const StoredType most = std::ranges::max_element(elements, {}, [](const auto& e) { return e.second; })->first;
    if (!is_quantised(most)) return plain_file_type(plain_dtype(most));
    const auto type = std::ranges::find(file_types(), most, &FileType::base);
    return type == file_types().end() ? plain_file_type(DType::kF16) : type->number;
}

}  // namespace

void write_model_gguf(const Conversion& model, const std::filesystem::path& to, IfThere old,
                      const GgufEntries& tokenizer, const std::function<void()>& proceed) {
    const LlamaConfig& c = model.config();
    GgufEntries entries = gguf_keys(c);  // also where the source has its own: the model may have another layer map
    const bool same_types = keeps_types(model);
    const std::optional<GgufEntries> own = own_metadata(model, same_types);
    if (own) {
        entries = *own;
    } else {
        entries.add(tokenizer);
    }
    if (!own || !same_types) {
        entries.u32(kFileTypeKey, file_type_of(model));
        entries.u32(kVersionKey, kQuantisationVersion);
    }

    std::vector<GgufOutput> tensors;
    const std::vector<GgufFactors> factors = gguf_factors(c);
    for (const GgufFactors& f : factors) {
        tensors.push_back({f.name, {static_cast<int64_t>(f.values.size())}, StoredType::kF32});
    }
    for (const Conversion::Tensor& t : model.tensors()) {
        // Tensors that the family's files have in one matrix follow each other.
        const FileTensor there = in_gguf(c, {t.name, t.shape});
        if (there.row0 > 0) {
            require(tensors.back().type == type_of(t), Exit::kData,
                    "{}: rows of {} would have types {} and {} in a GGUF file; want --dtype f16", t.name, there.name,
                    name_of(tensors.back().type), name_of(type_of(t)));
            continue;
        }
        std::vector<int64_t> shape;
        for (int i = 0; i < there.shape.rank(); ++i) shape.push_back(there.shape[i]);
        tensors.push_back({there.name, shape, type_of(t)});
        if (t.written != type_of(t) && is_quantised(t.written) && t.shape.rank() == 2) {
            log::debug("{}: {} in {} becomes F16, since GGUF does not have it", to.string(), t.name,
                       name_of(t.written));
        }
    }
    GgufWriter writer(to, old, entries, tensors);
    log::info("writing {} tensors, {:.1f} MB", tensors.size(), static_cast<double>(writer.bytes()) / 1e6);
    for (const GgufFactors& f : factors) writer.append(std::as_bytes(std::span(f.values)));
    for (const Conversion::Tensor& t : model.tensors()) {
        const bool vector = t.shape.rank() == 1;
        const bool pairs = paired_in_gguf(gguf_family(c), t.name);
        const BlockLayout layout = layout_of(type_of(t));
        const int64_t cols = vector ? 1 : t.shape[1];
        const size_t row_bytes = static_cast<size_t>(cols / layout.elements) * layout.bytes;
        model.for_pieces(
            t, 0, cols, type_of(t),
            [&](std::span<std::byte> some) {
                proceed();
                if (pairs) to_pairs(some, row_bytes, static_cast<size_t>(c.head_dim));
                writer.append(some);
            },
            pairs ? c.head_dim : 1);
    }
    proceed();
    writer.publish();
}

}  // namespace trireme
