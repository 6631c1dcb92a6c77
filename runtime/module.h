#pragma once
/// CUDA module: a backend that is opened at run time, so that the program starts on machines without its libraries.

#include <string>
#include <vector>

namespace trireme {

/// A library that the module needs.
struct FoundLibrary {
    std::string name, path;  // "libnccl.so.2"; the path is "" if it was not found
};

/// Opens libtrireme_cuda.so, which is in the same folder as this library, and calls its registration function. Later
/// calls do nothing. The libraries that it needs are searched in TRIREME_CUDA_LIBS (folders separated by colons), in
/// that folder, by the system's loader, in the CUDA toolkit, and in Python's nvidia packages.
/// Errors: Exit::kUnavailable: no driver, a driver that is too old, no GPU, a missing library or module.
void load_cuda_module();

/// Returns whether an NVIDIA driver is installed, even one that does not work: the machine has, or should have, a GPU.
bool has_nvidia_driver();

/// Returns the libraries that load_cuda_module() searched for.
const std::vector<FoundLibrary>& cuda_libraries();

/// Returns glob patterns of the package folders of each python3 in `path`, a variable like PATH: those of its virtual
/// environment, and those of the Python that the environment was made from.
std::vector<std::string> python_packages(const std::string& path);

/// Returns the path of `name` in the first of `folders` (glob patterns) that has it, or "".
std::string find_library(const std::string& name, const std::vector<std::string>& folders);

}  // namespace trireme
