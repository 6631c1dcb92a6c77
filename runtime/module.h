#pragma once
/// CUDA module: the CUDA backend as a library that is opened at run time, so that the program starts on machines
/// without NVIDIA's libraries.

#include <string>
#include <vector>

namespace trireme {

/// A library that the module needs.
struct FoundLibrary {
    std::string name, path;  // "libnccl.so.2"; the path is "" if it was not found
};

/// Opens libtrireme_cuda.so, which is in the same folder as this library, and calls its function that registers device,
/// kernels and communicator. After a success, later calls do nothing. The module needs cuBLASLt, and NCCL for several
/// GPUs. These are searched in the folders of TRIREME_CUDA_LIBS (separated by colons) and in the module's folder. Then
/// follow the system's loader, the CUDA toolkit, and Python's nvidia packages.
/// Errors: Exit::kUnavailable: no driver, a driver that is too old, no GPU, no module or no cuBLASLt.
void load_cuda_module();

/// Returns whether an NVIDIA driver is installed, even one that does not work: the machine has, or should have, a GPU.
bool has_nvidia_driver();

/// Returns the libraries that the latest load_cuda_module() searched for; empty before.
const std::vector<FoundLibrary>& cuda_libraries();

/// Returns glob patterns of the package folders of each python3 in `path`, a variable like PATH: those of its virtual
/// environment, and those of the Python that the environment was made from.
std::vector<std::string> python_packages(const std::string& path);

/// Returns the path of `name` in the first of `folders` (glob patterns) that has it, or "" if none has it.
std::string find_library(const std::string& name, const std::vector<std::string>& folders);

}  // namespace trireme
