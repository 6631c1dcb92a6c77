#include "runtime/atomic_file.h"

#include <cerrno>
#include <system_error>

#include "runtime/part_file.h"
#include "runtime/rename_file.h"

namespace trireme {

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, IfThere old) {
    require_replaceable(path, IfThere::kReplace);
    std::error_code ignored;
    if (old == IfThere::kRefuse && std::filesystem::exists(path, ignored)) cannot_create(path, EEXIST);
    PartFile file(path, old);
    file.write(0, bytes);
    file.publish();
}

}  // namespace trireme
