#pragma once
/// NewFolder: a folder of files that appears whole or not at all.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A file that is written from its beginning to its end. Errors: Exit::kCantCreate if it exists or cannot be made, kIo.
class NewFile {
  public:
    explicit NewFile(const std::filesystem::path& path);
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile();
    void write(const void* bytes, size_t n);
    /// Flushes all of it to the disk.
    void finish();

  private:
    std::filesystem::path path_;
    int fd_;
};

/// A folder that gets its name with finish(); without it, it is removed. Until then its files are in PATH.trireme-part,
/// which this process has locked. Files of these names that a killed process left there are removed. If that folder
/// holds anything else, or another process has locked it, it is left unchanged and is an error.
class NewFolder {
  public:
    /// `names`: the files that it may hold. Errors: Exit::kCantCreate.
    NewFolder(const std::filesystem::path& path, std::span<const char* const> names);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;
    ~NewFolder();
    /// Returns the path at which to write a file of the folder.
    std::filesystem::path operator/(const char* file) const { return part_ / file; }
    /// Errors: Exit::kCantCreate if the name was taken in the meantime.
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
