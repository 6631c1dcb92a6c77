#include "model/tokenizer/token_store.h"

#include <algorithm>
#include <utility>

#include "model/files/keys.h"
#include "model/files/store/writer.h"
#include "runtime/error.h"

namespace trireme {
namespace {

void put(UnnamedFile& file, int64_t number) {
    file.append(std::as_bytes(std::span(&number, 1)));
}

/// Reads the offsets of `texts` pieces of a set with `whole` rows.
std::vector<int64_t> offsets_of(const StoreReader& reader, const char* name, int64_t texts, int64_t whole) {
    const StoreSet& set = reader.set(name, DType::kI64, 1);
    require(set.rows() == texts + 1, Exit::kData, "{}: '{}' has {} rows, {} texts want {}", reader.name(), name,
            set.rows(), texts, texts + 1);
    std::vector<int64_t> offsets = reader.all<int64_t>(set);
    require(offsets.front() == 0 && offsets.back() == whole, Exit::kData,
            "{}: '{}' goes from {} to {}, not from 0 to {}", reader.name(), name, offsets.front(), offsets.back(),
            whole);
    const auto back = std::ranges::adjacent_find(offsets, std::greater<>());
    require(back == offsets.end(), Exit::kData, "{}: '{}' has {} after {}: out of order", reader.name(), name,
            back == offsets.end() ? 0 : back[1], back == offsets.end() ? 0 : back[0]);
    return offsets;
}

int64_t count_of(const Keys& keys, const char* key, std::string_view where) {
    const int64_t n = keys.required(keys.integer(key), key);
    require(n >= 0, Exit::kData, "{}: '{}' is {}", where, key, n);
    return n;
}

}  // namespace

TokenStoreWriter::TokenStoreWriter(std::filesystem::path path, IfThere old, TokenizerIdentity tokenizer,
                                   bool add_special)
    : path_(std::move(path)),
      old_(old),
      tokenizer_(std::move(tokenizer)),
      add_special_(add_special),
      ids_(path_.parent_path()),
      offsets_(path_.parent_path()),
      names_(path_.parent_path()),
      name_offsets_(path_.parent_path()) {
    put(offsets_, 0);
    put(name_offsets_, 0);
}

void TokenStoreWriter::add(std::string_view name, std::span<const int32_t> ids) {
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < 0 || id >= tokenizer_.vocab; });
    require(wrong == ids.end(), Exit::kData, "{}: id {} at index {} is outside the vocabulary: want 0 to {}",
            shown(name), wrong == ids.end() ? 0 : *wrong, wrong - ids.begin(), tokenizer_.vocab - 1);
    ids_.append(std::as_bytes(ids));
    names_.append(std::as_bytes(std::span(name)));
    ++texts_;
    tokens_ += static_cast<int64_t>(ids.size());
    put(offsets_, tokens_);
    put(name_offsets_, static_cast<int64_t>(names_.bytes()));
}

void TokenStoreWriter::publish(const std::function<void()>& proceed) {
    const Json about = {
        {"texts", texts_}, {"tokens", tokens_}, {"add_special", add_special_}, {"tokenizer", tokenizer_.to_json()}};
    StoreWriter writer(path_, old_, std::string(kTokenStore),
                       {{.name = "ids", .type = DType::kI32, .shape = {tokens_}},
                        {.name = "offsets", .type = DType::kI64, .shape = {texts_ + 1}},
                        {.name = "names", .type = DType::kU8, .shape = {static_cast<int64_t>(names_.bytes())}},
                        {.name = "name_offsets", .type = DType::kI64, .shape = {texts_ + 1}}},
                       about.dump());
    size_t set = 0;
    std::vector<std::byte> block(StoreSet::kBlockBytes);
    for (const UnnamedFile* from : {&ids_, &offsets_, &names_, &name_offsets_}) {
        for (uint64_t done = 0; done < from->bytes();) {
            proceed();
            const auto some = std::span(block).first(std::min<size_t>(block.size(), from->bytes() - done));
            from->read(done, some);
            writer.append(set, some);
            done += some.size();
        }
        ++set;
    }
    proceed();
    writer.publish();
}

TokenStore::TokenStore(std::unique_ptr<ByteSource> source)
    : reader_(std::move(source), kTokenStore), all_ids_(reader_, reader_.set("ids", DType::kI32, 1)) {
    const Keys about(reader_.about(), path());
    const int64_t texts = count_of(about, "texts", path()), tokens = count_of(about, "tokens", path());
    add_special_ = about.required(about.boolean("add_special"), "add_special");
    const Json* const tokenizer = about.find("tokenizer");
    require(tokenizer != nullptr, Exit::kData, "{}: it does not say by which tokenizer", path());
    tokenizer_ = TokenizerIdentity::from_json(*tokenizer, path());
    const int64_t there = all_ids_.set().rows();
    require(there == tokens, Exit::kData, "{}: it has {} ids, and says that it has {}", path(), there, tokens);
    offsets_ = offsets_of(reader_, "offsets", texts, tokens);
    const StoreSet& names = reader_.set("names", DType::kU8, 1);
    name_offsets_ = offsets_of(reader_, "name_offsets", texts, names.rows());
    names_.resize(static_cast<size_t>(names.rows()));
    reader_.read(names, 0, names.rows(), std::as_writable_bytes(std::span(names_)));
}

size_t TokenStore::at(int64_t text) const {
    check(text >= 0 && text < texts(), "token store: text {} of {}", text, texts());
    return static_cast<size_t>(text);
}

std::string_view TokenStore::name(int64_t text) const {
    const int64_t begin = name_offsets_[at(text)], end = name_offsets_[at(text) + 1];
    return std::string_view(names_).substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

std::vector<int32_t> TokenStore::ids(int64_t text, int64_t most) const {
    const int64_t begin = offsets_[at(text)], end = begin + std::min(length(text), most);
    std::vector<int32_t> ids(static_cast<size_t>(end - begin));
    all_ids_.read(begin, std::as_writable_bytes(std::span(ids)));
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < 0 || id >= tokenizer_.vocab; });
    require(wrong == ids.end(), Exit::kData, "{}: text {} has the id {} at index {}, outside its vocabulary of {}",
            path(), text, wrong == ids.end() ? 0 : *wrong, wrong - ids.begin(), tokenizer_.vocab);
    return ids;
}

}  // namespace trireme
