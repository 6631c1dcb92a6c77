#pragma once
/// Memory that the ranks of one machine have in common.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme {

/// As many bytes of each rank, one rank's behind the other's, all zero at first. The memory has no name and no file, so
/// nothing is left of it, however the ranks end; and it is there as a whole or not at all: no access fails later.
class SharedMemory {
  public:
    /// What every rank gave, in rank order; blocks.
    using Gather = std::function<std::vector<std::string>(const std::string& mine)>;

    /// A collective call. `names`: process_name() of all ranks; `bytes_each`: whole pages. `wanted` may throw what this
    /// rank has against it. Errors: AgreedError, the first rank's reason.
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
