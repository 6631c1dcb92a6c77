#pragma once
/// Folders of files that appear whole or not at all.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A file that is written from its beginning to its end. Errors: Exit::kCantCreate where it is there or cannot be made,
/// kIo.
class NewFile {
  public:
    explicit NewFile(const std::filesystem::path& path);
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile();
    void write(const void* bytes, size_t n);
    /// All of it is on the disk then.
    void finish();

  private:
    std::filesystem::path path_;
    int fd_;
};

/// A folder that gets its name with finish(), or goes. Until then its files lie in PATH.trireme-part, which this
/// process holds locked. What a killed process has left there is removed: files of the names below. A folder that holds
/// anything else, or that another process holds, stays as it is and is an error.
class NewFolder {
  public:
    /// `names`: of the files that it may get. Errors: Exit::kCantCreate.
    NewFolder(const std::filesystem::path& path, std::span<const char* const> names);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;
    ~NewFolder();
    /// Where a file of the folder is to be written.
    std::filesystem::path operator/(const char* file) const { return part_ / file; }
    /// Errors: Exit::kCantCreate where something has got the name meanwhile.
    void finish();

  private:
    void take();
    bool try_to_take();
    std::vector<std::string> leftovers() const;
    void clear() const;

    std::filesystem::path path_, part_;
    std::vector<std::string> names_;
    int fd_ = -1;  // the part's, locked
    bool done_ = false;
};

}  // namespace trireme
