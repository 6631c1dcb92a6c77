#pragma once
/// SharedMemory: memory that all ranks of a run share, if they are on one machine. SharedSums works in it.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

/// `bytes_each` zeroed bytes for each rank, in rank order. The memory has no name and no file, so it disappears with
/// the ranks, however they end. All of it is allocated, or the constructor throws: no access fails later.
class SharedMemory {
  public:
    /// A collective that returns the bytes of every rank, in rank order; blocks.
    using Gather = std::function<std::vector<std::string>(const std::string& mine)>;

    /// A collective call. `names`: process_name() of all ranks, in rank order. `bytes_each`: a multiple of the page
    /// size. The last argument is called on each rank, and throws an Error to refuse to share. Errors: AgreedError,
    /// with the reason of the first rank that has one.
    SharedMemory(int rank, const std::vector<std::string>& names, size_t bytes_each, const Gather& gather,
                 const std::function<void()>& wanted);

    /// The memory of rank 0, at different addresses in each process.
    std::byte* data() const { return data_.get(); }
    /// Lets the memory stay mapped until the process ends.
    void keep() { static_cast<void>(data_.release()); }

  private:
    struct Unmap {
        size_t bytes;
        void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace trireme
