#pragma once
/// An INI file that exists for the duration of a test.

#include <cstdlib>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme::test {

class IniFile {
  public:
    explicit IniFile(const std::string& text) : path_(testing::TempDir() + "trireme-XXXXXX") {
        const int fd = ::mkstemp(path_.data());
        EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        ::close(fd);
    }
    IniFile(const IniFile&) = delete;
    IniFile& operator=(const IniFile&) = delete;
    ~IniFile() { ::unlink(path_.c_str()); }

    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace trireme::test
