#pragma once
/// SharedMemory: memory that the ranks of one machine share.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

/// An equal number of zeroed bytes for each rank, in rank order. The memory has no name and no file, so it disappears
/// with the ranks, however they end. All of it is allocated, or the constructor throws: no access fails later.
class SharedMemory {
  public:
    /// Returns the bytes of every rank, in rank order; blocks.
    using Gather = std::function<std::vector<std::string>(const std::string& mine)>;

    /// A collective call. `names`: process_name() of all ranks; `bytes_each`: whole pages. The last argument is called
    /// on each rank, and throws if that rank refuses to share. Errors: AgreedError, the first rank's reason.
    SharedMemory(int rank, const std::vector<std::string>& names, size_t bytes_each, const Gather& gather,
                 const std::function<void()>& wanted);

    std::byte* data() const { return data_.get(); }

  private:
    struct Unmap {
        size_t bytes;
        void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace trireme
