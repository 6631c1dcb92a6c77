#pragma once
/// FileModel: the base of checkpoints whose tensors are slices of matrices in files: a folder of safetensors, a GGUF.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/checkpoint/tensor_names.h"
#include "model/checkpoint/weight_source.h"
#include "model/files/slice_reader.h"

namespace trireme {

class FileModel : public WeightSource {
  protected:
    /// Looks up every expected tensor in `found`, a map from the files' names, at place(config, tensor), which is
    /// in_safetensors or in_gguf. Calls take(tensor, place, entry, problems) for those that are there, adds the others
    /// to `problems`, and removes all these names from `found`. Problems of a matrix that is several tensors are
    /// reported with the first of them.
    template <class Found, class Place, class Take>
    void take_expected(Found& found, const Place& place, TensorProblems& problems, const Take& take) {
        std::set<std::string> used;
        for (const ExpectedTensor& want : expected_tensors(config_)) {
            const FileTensor there = place(config_, want);
            TensorProblems reported;
            TensorProblems& report = used.insert(there.name).second ? problems : reported;
            if (const auto it = found.find(there.name); it != found.end()) {
                take(want, there, it->second, report);
            } else {
                report.add(there.name, fmt::format("{}", there.shape), "missing");
            }
        }
        for (const std::string& name : used) found.erase(name);
    }

    /// Adds the next tensor of tensors(), whose values `matrix` holds.
    void add_slice(const ExpectedTensor& tensor, const StoredMatrix& matrix) {
        stored_.push_back(matrix);
        add_tensor({tensor.name, matrix.type, tensor.shape});
        natural_.add(matrix.type, tensor.shape.elements());
        natural_dtype_ = natural_.get();
    }

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        read_slice(stored_[tensor], tensors_[tensor].name, row0, col0, out);
    }
    void do_read_blocks(size_t tensor, int64_t row0, int64_t rows, int64_t col0,
                        std::span<std::byte> out) const override {
        read_block_rows(stored_[tensor], tensors_[tensor].name, row0, rows, col0, out);
    }
    int64_t do_rows_together(size_t tensor) const override {  // the rows of a head, if they are stored as pairs
        return std::max<int64_t>(1, stored_[tensor].paired_rows);
    }

    std::vector<StoredMatrix> stored_;  // in the order of tensors_
    NaturalType natural_;
};

}  // namespace trireme
