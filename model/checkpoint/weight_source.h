#pragma once
/// WeightSource: an open checkpoint, with its config, its tensors under Hugging Face names, and slices of them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/config.h"
#include "runtime/stored_type.h"
#include "runtime/tensor.h"

namespace trireme {

struct TensorInfo {
    std::string name;  // Hugging Face name: "model.layers.0.self_attn.q_proj.weight", "lm_head.weight", ...
    StoredType type;
    Shape shape;  // [rows, columns], or [elements]
};

/// A WeightSource exists only after headers were read and every needed tensor's presence, type and shape were checked.
/// `read` may be called from several threads at once.
class WeightSource {
  public:
    virtual ~WeightSource() = default;

    const LlamaConfig& config() const { return config_; }
    /// The type in which most elements are stored, f16 if that is quantised. --dtype auto selects it.
    DType natural_dtype() const { return natural_dtype_; }
    /// The tensors the forward needs (nothing else that the files may hold), in forward order.
    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    const TensorInfo& info(std::string_view name) const;

    /// Fills `out` (f32, f16 or bf16; rows may be strided) with rows [row0, row0 + out.rows()) and columns
    /// [col0, col0 + out.cols()) of a matrix, or with elements [row0, row0 + out.rows()) of a vector (col0 is 0).
    /// Reads only what it needs. Query and key rows are in rotate-half order, whatever the file's order.
    /// Errors: Exit::kData (a NaN or infinity: tensor, first index), kConfig (a value too large for f16),
    /// kIo (a read failed, or the file is not the one that was opened).
    void read(std::string_view name, int64_t row0, int64_t col0, const HostTensor& out) const;
    /// Fills `out` with blocks of rows [row0, row0 + rows) of a matrix of a quantised type. A row has out.size() / rows
    /// bytes of whole blocks; the first one contains column col0. Rows are in the order of read(). Errors: as read().
    void read_blocks(std::string_view name, int64_t row0, int64_t rows, int64_t col0, std::span<std::byte> out) const;
    /// Returns n: rows [i n, (i + 1) n) of a tensor are always read together. Reading a tensor in parts that end there
    /// reads no row twice.
    int64_t rows_together(std::string_view name) const;

  protected:
    /// `tensor` indexes tensors(); `out` has its number of dimensions. Does all else that read() promises.
    virtual void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const = 0;
    /// Errors: Exit::kInternal in a source without quantised types.
    virtual void do_read_blocks(size_t tensor, int64_t row0, int64_t rows, int64_t col0,
                                std::span<std::byte> out) const;
    virtual int64_t do_rows_together(size_t) const { return 1; }

    void add_tensor(TensorInfo info);

    LlamaConfig config_;
    DType natural_dtype_ = DType::kF32;
    std::vector<TensorInfo> tensors_;

  private:
    size_t index_of(std::string_view name) const;

    std::map<std::string, size_t, std::less<>> index_;  // name -> tensors_
};

/// Opens a Hugging Face folder (config.json and safetensors), a .gguf file, a folder with one .gguf file, or a store
/// (store_model.h).
/// Errors: Exit::kNoInput, kPermission, kData (all wrong tensors at once, as a table).
std::unique_ptr<WeightSource> open_model(const std::filesystem::path& path);

/// Returns the config of such a model, or of a config.json; a folder need not have weights. Errors: as open_model.
LlamaConfig open_config(const std::filesystem::path& path);

/// Whether the path has weights and not only a config: a .gguf file, a store, or safetensors in a folder. Errors: as
/// find_gguf.
bool has_weights(const std::filesystem::path& path);

}  // namespace trireme
