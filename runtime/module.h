#pragma once
/// A backend that is not linked but opened: the program starts where its libraries are not.

#include <string>
#include <vector>

namespace trireme {

/// A library that a module needs, found or not.
struct FoundLibrary {
    std::string name, path;  // "libnccl.so.2", "" if nowhere
};

/// Opens libtrireme_cuda.so, which lies beside this library, and lets it register what it brings; later calls do
/// nothing. Its libraries are looked for in TRIREME_CUDA_LIBS (folders, with colons between), where the system's loader
/// looks, in the toolkit, and in Python's nvidia packages. Errors: Exit::kUnavailable: no driver, one that is too old,
/// no card, a library or the module itself is missing.
void load_cuda_module();

/// Whether there is an NVIDIA driver, whatever its state: the machine has a card, or is meant to.
bool has_nvidia_driver();

/// What load_cuda_module() found.
const std::vector<FoundLibrary>& cuda_libraries();

/// Patterns of the folders in which the Pythons of `path`, a variable like PATH, have their packages: of each folder
/// with a python3, those of that environment and of the Python that it was made from.
std::vector<std::string> python_packages(const std::string& path);

/// The path of `name` in one of `folders`, which may be glob patterns; "" if nowhere.
std::string find_library(const std::string& name, const std::vector<std::string>& folders);

}  // namespace trireme
