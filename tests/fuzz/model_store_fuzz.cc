// Models in stores (convert -o NAME.h5). All digests are right, so that only the content can be wrong. The first two
// bytes are the length of the config.json that follows. Each byte after it selects how a tensor that this config
// requires is stored, in order. If the length's highest bit is set, a text of one such length follows the config: what
// the store says of itself ("about"), which has the types of blocks.

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/store_model.h"
#include "model/files/json.h"
#include "model/files/store/manifest.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

struct Content {
    StoreSet set;
    std::vector<std::byte> bytes;
};

uint64_t digest_of(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    return {from, from + text.size()};
}

/// A store without HDF5's structures, which our readers do not use.
std::vector<std::byte> store_of(std::vector<Content> contents, std::string_view about) {
    contents.push_back(
        {{.name = kStoreAbout, .type = DType::kU8, .shape = {static_cast<int64_t>(about.size())}}, bytes_of(about)});
    StoreManifest m = {.kind = kStoredModel, .sets = {}, .offsets = {}};
    std::vector<std::byte> tail;
    std::vector<uint64_t> digests;
    for (const auto& [set, bytes] : contents) {
        m.sets.push_back(set);
        m.offsets.push_back(tail.size());
        const uint64_t block = static_cast<uint64_t>(set.block_rows()) * set.row_bytes();
        for (int64_t b = 0; b < set.blocks(); ++b) {
            const uint64_t begin = static_cast<uint64_t>(b) * block;
            digests.push_back(
                digest_of(std::span(bytes).subspan(begin, std::min<uint64_t>(block, bytes.size() - begin))));
        }
        tail.insert(tail.end(), bytes.begin(), bytes.end());
    }
    m.sets.push_back({.name = kStoreDigests, .type = DType::kI64, .shape = {static_cast<int64_t>(digests.size())}});
    m.offsets.push_back(tail.size());
    const std::span<const std::byte> all = std::as_bytes(std::span(digests));
    tail.insert(tail.end(), all.begin(), all.end());
    m.digests = digest_of(all);
    m.rest = digest_of({});
    const uint64_t user_block = StoreManifest::user_block(m.kind, m.sets);
    for (uint64_t& offset : m.offsets) offset += user_block;
    m.file_bytes = user_block + tail.size();
    std::vector<std::byte> file = m.bytes(user_block);
    file.insert(file.end(), tail.begin(), tail.end());
    return file;
}

/// A set of that shape, filled with ones in half precision; `nan`: its last row is NaN.
Content tensor(std::string name, DType type, std::vector<int64_t> shape, bool nan) {
    Content c = {{.name = std::move(name), .type = type, .shape = std::move(shape)}, {}};
    c.bytes.assign(c.set.bytes(), std::byte{0x3C});
    if (nan && !c.bytes.empty())
        std::fill(c.bytes.end() - static_cast<std::ptrdiff_t>(c.set.row_bytes()), c.bytes.end(), std::byte{0xFF});
    return c;
}

/// Adds one tensor as `how` selects: whole, as blocks of columns, or wrong in some way.
void add(std::vector<Content>& to, const ExpectedTensor& want, uint8_t how) {
    constexpr DType types[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kU8};
    const DType type = types[how >> 3 & 3];
    const bool nan = (how & 0xE0) == 0xE0;
    std::vector<int64_t> shape = {want.shape[0]};
    // Bytes are of Q4_0 blocks.
    if (want.shape.rank() == 2) shape.push_back(type == DType::kU8 ? want.shape[1] / 32 * 18 : want.shape[1]);
    const int64_t last = shape.back();
    switch (how & 7) {
        case 1:  // missing
            return;
        case 2:
            shape.back() = last + 1;
            break;
        case 3:
            shape.push_back(1);
            break;
        case 4:
        case 5: {  // columns of two ranks, the last one missing or too few
            shape.back() = last / 2;
            to.push_back(tensor(want.name + "/0", type, shape, nan));
            shape.back() = last - last / 2 - ((how & 7) == 5 ? 1 : 0);
            if (shape.back() >= 0) to.push_back(tensor(want.name + "/1", type, shape, nan));
            return;
        }
        case 6:
            to.push_back(tensor(want.name + "/0", type, shape, nan));
            return;
        case 7:
            to.push_back(tensor(want.name + ".more", type, shape, nan));
            break;
        default:
            break;
    }
    to.push_back(tensor(want.name, type, shape, nan));
}

void read_all(const WeightSource& source) {
    for (const TensorInfo& t : source.tensors()) {
        const bool vector = t.shape.rank() == 1;
        const int64_t rows = t.shape[0], cols = vector ? 1 : t.shape[1], n = (rows + 1) / 2, m = (cols + 1) / 2;
        std::vector<f16> out(static_cast<size_t>(n * m));
        const Shape some = vector ? Shape{n} : Shape{n, m};
        fuzz::run(
            [&] { source.read(t.name, rows - n, vector ? 0 : cols - m, HostTensor(out.data(), DType::kF16, some)); });
        if (vector || !is_quantised(t.type)) continue;
        const BlockLayout layout = layout_of(t.type);
        const int64_t blocks = cols / layout.elements, last = (blocks + 1) / 2;
        std::vector<std::byte> raw(static_cast<size_t>(n * last) * layout.bytes);
        fuzz::run([&] { source.read_blocks(t.name, rows - n, n, (blocks - last) * layout.elements, raw); });
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    std::span<const uint8_t> left(data, size);
    const auto text = [&](bool& another) {
        const size_t stated = left.size() < 2 ? 0 : size_t{left[0]} | size_t{left[1] & 0x7FU} << 8;
        another = left.size() >= 2 && (left[1] & 0x80U) != 0;
        left = left.subspan(std::min<size_t>(2, left.size()));
        const std::string_view it = fuzz::text_of(left.data(), std::min(stated, left.size()));
        left = left.subspan(it.size());
        return it;
    };
    bool has_about = false, ignored = false;
    const std::string_view config = text(has_about), about = has_about ? text(ignored) : "{}";
    const std::span<const uint8_t> how = left;
    const size_t length = config.size();
    std::vector<Content> contents = {
        {{.name = "files/config.json", .type = DType::kU8, .shape = {static_cast<int64_t>(length)}}, bytes_of(config)}};
    bool small = true;
    fuzz::run([&] {
        const LlamaConfig c = parse_config(parse_json(config, "config.json"), "config.json");
        small = c.n_layers <= 64;
        if (!small) return;
        int64_t elements = 0;
        const std::vector<ExpectedTensor> all = expected_tensors(c);
        for (const ExpectedTensor& t : all) {
            small = small && !__builtin_add_overflow(elements, t.shape.elements(), &elements) && elements < (1 << 20);
        }
        for (size_t i = 0; small && i < all.size(); ++i) add(contents, all[i], i < how.size() ? how[i] : 0);
    });
    if (!small) return 0;
    const std::vector<std::byte> file = store_of(std::move(contents), about);
    return fuzz::run([&] { read_all(*open_store_model(memory_source("fuzz", file))); });
}
