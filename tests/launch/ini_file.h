#pragma once
/// An INI file that exists for the duration of a test, in a folder of its own: paths in it are relative to the folder.

#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme::test {

class IniFile {
  public:
    explicit IniFile(const std::string& text) : folder_(testing::TempDir() + "trireme-XXXXXX") {
        EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
        path_ = folder_ + "/flags.ini";
        std::ofstream(path_) << text;
    }
    IniFile(const IniFile&) = delete;
    IniFile& operator=(const IniFile&) = delete;
    ~IniFile() {
        ::unlink(path_.c_str());
        ::rmdir(folder_.c_str());
    }

    const std::string& path() const { return path_; }

  private:
    std::string folder_, path_;
};

}  // namespace trireme::test
