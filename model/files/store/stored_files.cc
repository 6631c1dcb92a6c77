#include "model/files/store/stored_files.h"

#include <system_error>
#include <vector>

#include "model/files/store/reader.h"
#include "runtime/error.h"

namespace trireme {

namespace fs = std::filesystem;

bool is_store_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && is_store(*open_file(path));
}

std::optional<std::string> text_in(const StoreReader& store, const std::string& file, uint64_t most) {
    const std::string name = "files/" + file;
    if (store.find(name) == nullptr) return {};
    const StoreSet& set = store.set(name, DType::kU8, 1);
    require(set.bytes() <= most, Exit::kData, "{}: '{}' has {} bytes, at most {} are read", store.name(), name,
            set.bytes(), most);
    const std::vector<char> bytes = store.all<char>(set);
    return std::string(bytes.begin(), bytes.end());
}

StoredFiles::StoredFiles(const fs::path& path) : StoredFiles(open_file(path)) {}
StoredFiles::StoredFiles(std::unique_ptr<ByteSource> source)
    : store_(std::make_unique<StoreReader>(std::move(source), kStoredModel)) {}
StoredFiles::StoredFiles(StoredFiles&&) noexcept = default;
StoredFiles::~StoredFiles() = default;
const std::string& StoredFiles::name() const {
    return store_->name();
}
std::optional<std::string> StoredFiles::text(const std::string& file, uint64_t most) const {
    return text_in(*store_, file, most);
}

}  // namespace trireme
