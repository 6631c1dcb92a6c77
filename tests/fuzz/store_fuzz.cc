// Stores, and the content of token stores. The first byte selects how the rest becomes a file: it is the file; or the
// text of a manifest, whose digest is right. Or it describes data sets: all digests are right, and only the description
// can be wrong. Or it holds the numbers of a token store, and only these can be wrong.

#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "model/files/store/reader.h"
#include "model/tokenizer/token_store.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

std::vector<std::byte> with_text(std::string_view text, std::span<const std::byte> behind, uint64_t user_block) {
    std::vector<std::byte> file(std::max<uint64_t>(user_block, 24 + text.size()));
    const uint64_t length = text.size(), digest = XXH3_64bits(text.data(), text.size());
    std::memcpy(file.data(), kStoreMagic.data(), kStoreMagic.size());
    std::memcpy(file.data() + 8, &length, 8);
    std::memcpy(file.data() + 16, &digest, 8);
    std::memcpy(file.data() + 24, text.data(), text.size());
    file.insert(file.end(), behind.begin(), behind.end());
    return file;
}

/// Takes numbers from the front of the input.
class Numbers {
  public:
    Numbers(const uint8_t* data, size_t size) : data_(data), left_(size) {}
    uint64_t next(size_t bytes) {
        uint64_t x = 0;
        for (; bytes > 0 && left_ > 0; --bytes, --left_) x = x << 8 | *data_++;
        return x;
    }
    std::vector<std::byte> rest() const {
        const auto* from = reinterpret_cast<const std::byte*>(data_);
        return {from, from + left_};
    }

  private:
    const uint8_t* data_;
    size_t left_;
};

uint64_t digest_of(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

/// Makes a file of a manifest and of `tail`, the bytes that follow the user block. The digests of sets inside the file
/// are right; they are stored at `digests_at`.
std::vector<std::byte> with_digests(StoreManifest m, uint64_t digests_at, std::vector<std::byte> tail) {
    int64_t blocks = 0;
    for (const StoreSet& set : m.sets) {
        if (__builtin_add_overflow(blocks, set.blocks(), &blocks)) return {};
    }
    m.sets.push_back({.name = kStoreDigests, .type = DType::kI64, .shape = {blocks}});
    m.offsets.push_back(digests_at);
    const uint64_t user_block = StoreManifest::user_block(m.kind, m.sets);
    for (uint64_t& offset : m.offsets) offset += user_block;
    m.file_bytes = user_block + tail.size();
    const auto at = [&](uint64_t offset, uint64_t bytes) -> std::span<std::byte> {
        if (offset < user_block || offset - user_block > tail.size()) return {};
        const uint64_t begin = offset - user_block;
        return std::span(tail).subspan(begin, std::min<uint64_t>(bytes, tail.size() - begin));
    };
    std::vector<uint64_t> digests;
    for (size_t i = 0; i + 1 < m.sets.size(); ++i) {
        const StoreSet& set = m.sets[i];
        if (set.rows() > 4096 || set.row_bytes() > 4096) continue;
        const uint64_t block = static_cast<uint64_t>(set.block_rows()) * set.row_bytes();
        for (int64_t b = 0; b < set.blocks(); ++b) {
            const uint64_t begin = static_cast<uint64_t>(b) * block;
            digests.push_back(digest_of(at(m.offsets[i] + begin, std::min(block, set.bytes() - begin))));
        }
    }
    const std::span<std::byte> to = at(m.offsets.back(), digests.size() * 8);
    std::copy_n(reinterpret_cast<const std::byte*>(digests.data()), to.size(), to.data());
    m.digests = digest_of(at(m.offsets.back(), m.sets.back().bytes()));
    std::vector<std::byte> between;
    try {
        for (const StoreRange& r : ranges_between(m, user_block, "test")) {
            const std::span<std::byte> some = at(r.begin, r.end - r.begin);
            between.insert(between.end(), some.begin(), some.end());
        }
    } catch (const Error&) {
    }
    m.rest = digest_of(between);
    std::vector<std::byte> file = m.bytes(user_block);
    file.insert(file.end(), tail.begin(), tail.end());
    return file;
}

/// Makes sets as the numbers describe them, in a file of the rest of the input.
std::vector<std::byte> described(Numbers from) {
    StoreManifest m;
    m.kind = "test";
    const uint64_t n = from.next(1) % 5;
    for (uint64_t i = 0; i < n; ++i) {
        StoreSet set{.name = i == 0 ? kStoreAbout : std::string(1 + from.next(1) % 3, 'a'),
                     .type = i == 0 ? DType::kU8 : static_cast<DType>(from.next(1) % 6),
                     .shape = {}};
        const uint64_t dims = i == 0 ? 1 : 1 + from.next(1) % 4;
        for (uint64_t d = 0; d < dims; ++d) {
            const uint64_t width = from.next(1) % 8;
            set.shape.push_back(static_cast<int64_t>(from.next(width == 7 ? 6 : 1)));
        }
        m.sets.push_back(set);
        m.offsets.push_back(from.next(2));
    }
    const uint64_t digests_at = from.next(2);
    return with_digests(std::move(m), digests_at, from.rest());
}
/// Makes a token store whose counts, offsets and ids are the numbers; each is often right.
std::vector<std::byte> token_store(Numbers from) {
    StoreManifest m;
    m.kind = kTokenStore;
    std::vector<std::byte> tail;
    const auto add = [&](const char* name, DType type, std::span<const std::byte> bytes) {
        tail.resize((tail.size() + 7) / 8 * 8);
        m.sets.push_back({.name = name, .type = type, .shape = {static_cast<int64_t>(bytes.size() / size_of(type))}});
        m.offsets.push_back(tail.size());
        tail.insert(tail.end(), bytes.begin(), bytes.end());
    };
    const auto odd = [&](int64_t right) {
        const uint64_t how = from.next(1) % 16, bits = static_cast<uint64_t>(right);  // unsigned: it may wrap
        return static_cast<int64_t>(how < 12 ? bits : how == 12 ? bits + 1 : how == 13 ? -bits : from.next(8));
    };
    const auto offsets = [&](uint64_t texts) {
        std::vector<int64_t> all = {odd(0)};
        for (uint64_t t = 0; t < texts; ++t) {
            all.push_back(odd(static_cast<int64_t>(static_cast<uint64_t>(all.back()) + from.next(1) % 4)));
        }
        return all;
    };
    const uint64_t texts = from.next(1) % 6;
    const std::vector<int64_t> of_ids = offsets(texts), of_names = offsets(texts);
    const auto rows = [&](int64_t n) { return static_cast<size_t>(n < 0 || n > 64 ? 3 : n); };
    std::vector<int32_t> ids(rows(odd(of_ids.back())));
    for (int32_t& id : ids) id = static_cast<int32_t>(odd(7));
    const std::string names(rows(odd(of_names.back())), 'n');
    TokenizerIdentity tokenizer;
    tokenizer.vocab = odd(8);
    tokenizer.bos = static_cast<int32_t>(odd(1));
    const Json about = {{"texts", odd(static_cast<int64_t>(texts))},
                        {"tokens", odd(static_cast<int64_t>(ids.size()))},
                        {"add_special", true},
                        {"tokenizer", tokenizer.to_json()}};
    const std::string said = from.next(1) % 8 == 7 ? std::string("{}") : about.dump();
    add("ids", DType::kI32, std::as_bytes(std::span(ids)));
    add("offsets", DType::kI64, std::as_bytes(std::span(of_ids)));
    add("names", DType::kU8, std::as_bytes(std::span(names)));
    add("name_offsets", DType::kI64, std::as_bytes(std::span(of_names)));
    add(kStoreAbout, DType::kU8, std::as_bytes(std::span(said)));
    tail.resize((tail.size() + 7) / 8 * 8);
    const uint64_t digests_at = tail.size();
    int64_t blocks = 0;
    for (const StoreSet& set : m.sets) blocks += set.blocks();
    tail.resize(tail.size() + static_cast<size_t>(blocks) * 8);
    return with_digests(std::move(m), digests_at, std::move(tail));
}

void read_tokens(std::span<const std::byte> file) {
    const TokenStore store(memory_source("fuzz", file));
    for (int64_t t = 0; t < store.texts(); ++t) {
        fuzz::expect(store.length(t) >= 0, "a text of less than no ids");
        for (const int32_t id : store.ids(t)) {
            fuzz::expect(id >= 0 && id < store.tokenizer().vocab, "an id outside the vocabulary");
        }
        store.name(t);
        fuzz::expect(store.ids(t, 1).size() <= 1, "more ids than requested");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text = fuzz::text_of(data + 1, size - 1);
    const auto bytes = std::as_bytes(std::span(text));
    const std::vector<std::byte> file = data[0] % 4 == 0   ? std::vector(bytes.begin(), bytes.end())
                                        : data[0] % 4 == 1 ? with_text(text, bytes, 1024)
                                        : data[0] % 4 == 2 ? described(Numbers(data + 1, size - 1))
                                                           : token_store(Numbers(data + 1, size - 1));
    if (data[0] % 4 == 3) return fuzz::run([&] { read_tokens(file); });
    return fuzz::run([&] {
        const StoreReader reader(memory_source("fuzz", file), "test");
        for (const StoreSet& set : reader.sets()) {
            fuzz::expect(set.bytes() <= file.size(), "a set of more bytes than the file has");
            if (set.row_bytes() == 0) continue;
            const std::vector<char> all = reader.all<char>(set);
            fuzz::expect(all.size() == set.bytes(), "another number of bytes");
            std::vector<std::byte> part(set.row_bytes());
            if (set.rows() > 0) reader.read(set, set.rows() / 2, 1, part);
        }
    });
}
