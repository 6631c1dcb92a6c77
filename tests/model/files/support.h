#pragma once
/// Files and models made by hand, and the errors that are expected of them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/weight_source.h"
#include "runtime/error.h"

namespace trireme::test {

/// A temporary folder, removed by the destructor.
class TempFolder {
  public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path write(const std::string& name, std::string_view bytes) const;

  private:
    std::filesystem::path path_;
};

std::string slurp(const std::filesystem::path& path);
std::span<const std::byte> bytes_of(std::string_view text);

/// Runs `f`, which must fail with `code` and a message of one line that holds every one of `parts`.
void expect_error(const std::function<void()>& f, Exit code, const std::vector<std::string>& parts);

/// 8 bytes of length, then `header`, then `data`.
std::string safetensors(const std::string& header, std::string_view data = {});

struct MadeTensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string data;
};
using MadeTensors = std::map<std::string, MadeTensor>;
/// A well-formed file of these tensors, in order of name.
std::string safetensors(const MadeTensors& tensors);

/// The config of a model with 2 layers, dim 16, 2 heads of 8, 1 KV head, ffn 24, vocabulary 12, untied; and weights of
/// F32 that count up: element i of the whole model is i / 1024.
std::string small_config(const std::string& extra = "");
MadeTensors small_tensors();
/// Writes both into a folder.
void write_small_model(const TempFolder& folder, const MadeTensors& tensors);

/// GGUF bytes, piece by piece.
class GgufBytes {
  public:
    template <class T>
    GgufBytes& raw(T v) {
        bytes_.append(reinterpret_cast<const char*>(&v), sizeof(T));
        return *this;
    }
    GgufBytes& string(std::string_view s) {
        raw(uint64_t{s.size()});
        bytes_ += s;
        return *this;
    }
    GgufBytes& head(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
        bytes_ += "GGUF";
        return raw(version).raw(tensors).raw(keys);
    }
    GgufBytes& u32(std::string_view key, uint32_t v) { return string(key).raw(uint32_t{4}).raw(v); }
    GgufBytes& f32(std::string_view key, float v) { return string(key).raw(uint32_t{6}).raw(v); }
    GgufBytes& text(std::string_view key, std::string_view v) { return string(key).raw(uint32_t{8}).string(v); }
    /// `dims` in the order of the file: fastest first.
    GgufBytes& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
        string(name).raw(static_cast<uint32_t>(dims.size()));
        for (const uint64_t d : dims) raw(d);
        return raw(type).raw(offset);
    }
    GgufBytes& pad(size_t to = 32) {
        bytes_.resize((bytes_.size() + to - 1) / to * to);
        return *this;
    }
    GgufBytes& append(std::string_view more) {
        bytes_ += more;
        return *this;
    }
    const std::string& str() const { return bytes_; }

  private:
    std::string bytes_;
};

/// A slice as floats.
std::vector<float> read_f32(const WeightSource& source, std::string_view name, int64_t row0, int64_t col0,
                            const Shape& shape);
std::vector<float> read_all(const WeightSource& source, std::string_view name);

}  // namespace trireme::test
