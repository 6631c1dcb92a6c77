#include "model/checkpoint/model_store.h"

#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/shard.h"
#include "model/checkpoint/store_model.h"
#include "model/files/json.h"
#include "model/files/store/writer.h"
#include "runtime/log.h"

namespace trireme {
namespace {

struct Columns {
    int64_t begin, n;
};

/// Returns the columns of each rank that has some, if ranks divide the matrix by columns; else all columns as one. They
/// begin and end with blocks: a rank whose first column is inside a block also reads the last block before its own.
std::vector<Columns> columns_of(const Conversion::Tensor& tensor, const LlamaConfig& c, int ranks) {
    const bool heads = tensor.name.ends_with(".self_attn.o_proj.weight");
    if (ranks == 1 || !(heads || tensor.name.ends_with(".mlp.down_proj.weight"))) {
        return {{0, tensor.shape.rank() == 1 ? 1 : tensor.shape[1]}};
    }
    std::vector<Columns> all;
    for (int r = 0; r < ranks; ++r) {
        const Shard s = make_shard(c, r, ranks);
        const int64_t begin = heads ? s.head_begin * c.head_dim : s.ffn_begin;
        const int64_t end = begin + (heads ? s.n_heads * c.head_dim : s.ffn_dim);
        const int64_t block = layout_of(tensor.written).elements,
                      first = all.empty() ? 0 : all.back().begin + all.back().n;
        const int64_t past = end == tensor.shape[1] ? end : end / block * block;
        if (past > first) all.push_back({first, past - first});
    }
    return all;
}

}  // namespace

void write_model_store(const Conversion& model, const std::filesystem::path& to, IfThere old, int ranks,
                       const std::function<void()>& proceed) {
    const LlamaConfig& c = model.config();
    make_shard(c, 0, ranks);  // fails if there are too many ranks
    struct StoredPart {
        const Conversion::Tensor* tensor;
        Columns columns;
    };
    std::vector<StoredPart> parts;
    std::vector<StoreSet> sets;
    Json types = Json::object();
    for (const Conversion::Tensor& t : model.tensors()) {
        const bool vector = t.shape.rank() == 1, blocks = is_quantised(t.written);
        const BlockLayout layout = layout_of(t.written);
        const DType type = blocks ? DType::kU8 : plain_dtype(t.written);
        if (blocks) types[t.name] = name_of(t.written);
        const std::vector<Columns> columns = columns_of(t, c, ranks);
        for (size_t i = 0; i < columns.size(); ++i) {
            parts.push_back({&t, columns[i]});
            const int64_t cols = columns[i].n / layout.elements * (blocks ? static_cast<int64_t>(layout.bytes) : 1);
            const std::string name = columns.size() == 1 ? t.name : fmt::format("{}/{}", t.name, i);
            sets.push_back({name, type, vector ? std::vector{t.shape[0]} : std::vector{t.shape[0], cols}});
        }
    }
    std::vector<ModelFile> files = model.files();
    files.push_back({"config.json", model.config_json()});
    for (const ModelFile& f : files) {
        sets.push_back({"files/" + f.name, DType::kU8, {static_cast<int64_t>(f.bytes.size())}});
    }
    const bool in_config = c.rope.scaling == RopeScaling::kLongrope;
    const std::vector<float> factors = in_config ? std::vector<float>() : c.rope.factors;
    if (!factors.empty()) sets.push_back({kRopeFactors, DType::kF32, {static_cast<int64_t>(factors.size())}});
    uint64_t bytes = 0;
    for (const StoreSet& set : sets) bytes += set.bytes();
    log::info("writing {} tensors, {:.1f} MB", model.tensors().size(), static_cast<double>(bytes) / 1e6);

    StoreWriter writer(to, old, kStoredModel, sets, Json{{"ranks", ranks}, {kStoredBlocks, types}}.dump());
    size_t at = 0;
    for (const StoredPart& p : parts) {
        model.for_pieces(*p.tensor, p.columns.begin, p.columns.n, p.tensor->written,
                         [&](std::span<const std::byte> some) {
                             proceed();
                             writer.append(at, some);
                         });
        ++at;
    }
    for (const ModelFile& f : files) writer.append(at++, std::as_bytes(std::span(f.bytes)));
    if (!factors.empty()) writer.append(at, std::as_bytes(std::span(factors)));
    proceed();
    writer.publish();
}

}  // namespace trireme
