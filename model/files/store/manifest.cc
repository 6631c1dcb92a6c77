#include "model/files/store/manifest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "model/files/checked.h"
#include "model/files/keys.h"
#include "model/files/limits.h"
#include "model/files/store/digest.h"

namespace trireme {
namespace {

constexpr uint64_t kHead = kStoreMagic.size() + 2 * sizeof(uint64_t);  // bytes before the text
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI64, DType::kU8};
constexpr size_t kDims = 4;
constexpr uint64_t kLeastUserBlock = 8192;  // HDF5 requires more than the alignment of data sets

uint64_t whole_number(const Json& v, const char* key, std::string_view where) {
    require(v.is_number_unsigned(), Exit::kData, "{}: '{}' is {}, a whole number from 0 was expected", where, key,
            Keys::text(v));
    return v.get<uint64_t>();
}

StoreSet parse_set(const Keys& keys, std::string_view where) {
    StoreSet set;
    set.name = keys.required(keys.string("name"), "name");
    require(!set.name.empty() && set.name.size() <= limits::kNameBytes, Exit::kData, "{}: a name of {} bytes", where,
            set.name.size());
    const std::string type = keys.required(keys.string("type"), "type");
    const auto* const found = std::ranges::find(kTypes, type, [](DType t) { return name_of(t); });
    require(found != std::end(kTypes), Exit::kData, "{}: '{}' has the type '{}'", where, shown(set.name), shown(type));
    set.type = *found;
    const Json* shape = keys.find("shape");
    require(shape != nullptr && shape->is_array() && !shape->empty() && shape->size() <= kDims, Exit::kData,
            "{}: '{}' has no shape of 1 to {} numbers", where, shown(set.name), kDims);
    Checked bytes = size_of(set.type);
    for (const Json& d : *shape) {
        const uint64_t extent = whole_number(d, "shape", where);
        // An extent of 0 hides an overflow of the others: each is bounded.
        require(extent <= uint64_t{1} << 48, Exit::kData, "{}: '{}' has an extent of {}", where, shown(set.name),
                extent);
        bytes = bytes * std::max<uint64_t>(1, extent);
        set.shape.push_back(static_cast<int64_t>(extent));
    }
    require(bytes.at_most(uint64_t{1} << 60), Exit::kData, "{}: '{}' is too large", where, shown(set.name));
    return set;
}

Json to_json(const StoreSet& set, uint64_t offset) {
    return {{"name", set.name}, {"type", name_of(set.type)}, {"shape", set.shape}, {"offset", offset}};
}

}  // namespace

uint64_t StoreManifest::user_block(const std::string& kind, const std::vector<StoreSet>& sets) {
    // A number's digits take 20 bytes at most, an escaped character six.
    uint64_t most = kHead + 512 + 6 * kind.size();
    for (const StoreSet& set : sets) most += 80 + 6 * set.name.size() + 20 * (set.shape.size() + 1);
    return std::bit_ceil(std::max<uint64_t>(kLeastUserBlock, most));
}

std::vector<std::byte> StoreManifest::bytes(uint64_t user_block) const {
    Json all = {{"kind", kind}, {"file_bytes", file_bytes}, {"digests", hex(digests)}, {"rest", hex(rest)}};
    for (size_t i = 0; i < sets.size(); ++i) all["sets"].push_back(to_json(sets[i], offsets[i]));
    const std::string text = all.dump();
    check(kHead + text.size() <= user_block, "store: a manifest of {} bytes", text.size());
    std::vector<std::byte> out(user_block);
    const uint64_t length = text.size(), digest = XXH3_64bits(text.data(), text.size());
    std::memcpy(out.data(), kStoreMagic.data(), kStoreMagic.size());
    std::memcpy(out.data() + kStoreMagic.size(), &length, sizeof length);
    std::memcpy(out.data() + kStoreMagic.size() + sizeof length, &digest, sizeof digest);
    std::memcpy(out.data() + kHead, text.data(), text.size());
    return out;
}

std::vector<StoreRange> ranges_between(const StoreManifest& m, uint64_t user_block, std::string_view where) {
    std::vector<StoreRange> taken;
    for (size_t i = 0; i < m.sets.size(); ++i) {
        if (m.sets[i].bytes() == 0) continue;
        const Checked end = Checked(m.offsets[i]) + m.sets[i].bytes();
        require(end.at_most(m.file_bytes) && m.offsets[i] >= user_block, Exit::kData, "{}: '{}' lies outside of it",
                where, shown(m.sets[i].name));
        taken.push_back({m.offsets[i], end.value()});
    }
    std::ranges::sort(taken, {}, &StoreRange::begin);
    taken.push_back({m.file_bytes, m.file_bytes});
    std::vector<StoreRange> between;
    uint64_t at = user_block;
    for (const StoreRange& r : taken) {
        require(r.begin >= at, Exit::kData, "{}: two data sets share bytes", where);
        if (r.begin > at) between.push_back({at, r.begin});
        at = r.end;
    }
    return between;
}

StoreManifest parse_manifest(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where);
    const Keys keys(json, where);
    StoreManifest m;
    m.kind = keys.required(keys.string("kind"), "kind");
    m.digests = keys.digest("digests");
    m.rest = keys.digest("rest");
    const Json *bytes = keys.find("file_bytes"), *sets = keys.find("sets");
    require(
        bytes != nullptr && sets != nullptr && sets->is_array() && !sets->empty() && sets->size() <= limits::kTensors,
        Exit::kData, "{}: the manifest lists no data sets", where);
    m.file_bytes = whole_number(*bytes, "file_bytes", where);
    std::set<std::string> names;
    for (const Json& one : *sets) {
        const Keys of_set(one, where);
        m.sets.push_back(parse_set(of_set, where));
        require(names.insert(m.sets.back().name).second, Exit::kData, "{}: '{}' is there twice", where,
                shown(m.sets.back().name));
        const Json* offset = of_set.find("offset");
        require(offset != nullptr, Exit::kData, "{}: '{}' has no offset", where, shown(m.sets.back().name));
        m.offsets.push_back(whole_number(*offset, "offset", where));
    }
    const StoreSet& last = m.sets.back();
    Checked blocks = 0;
    for (size_t i = 0; i + 1 < m.sets.size(); ++i) blocks = blocks + static_cast<uint64_t>(m.sets[i].blocks());
    require(last.name == kStoreDigests && last.type == DType::kI64 && last.shape.size() == 1 &&
                blocks.equals(static_cast<uint64_t>(last.rows())),
            Exit::kData, "{}: there is no digest of each block", where);
    return m;
}

}  // namespace trireme
