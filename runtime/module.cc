#include "runtime/module.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <glob.h>
#include <mutex>

#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kDriverWanted = 13000;  // CUDA 13.0, as cuDriverGetVersion counts

std::vector<FoundLibrary>& found() {
    static std::vector<FoundLibrary> libraries;
    return libraries;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find(':', begin), list.size());
        if (end > begin) parts.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

/// Returns the folder of the library that contains this function.
fs::path own_folder() {
    Dl_info info{};
    check(dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0, "dladdr does not know this library");
    return fs::absolute(info.dli_fname).parent_path();
}

/// Returns the library folders of the CUDA toolkit and of Python packages (pip install nvidia-cublas nvidia-nccl-cu13).
std::vector<std::string> usual_folders() {
    std::vector<std::string> all = {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib",
                                    "/usr/local/cuda-13*/lib64"};
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"}) {
        if (const std::string at = variable(name); !at.empty()) all.insert(all.begin(), at + "/lib64");
    }
    std::vector<std::string> pythons = split(variable("PYTHONPATH"));
    for (std::string& packages : python_packages(variable("PATH"))) pythons.push_back(std::move(packages));
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (const std::string at = variable(name); !at.empty()) pythons.push_back(at + "/lib/python3*/site-packages");
    }
    for (const std::string& prefix :
         {variable("HOME") + "/.local", std::string("/usr/local"), std::string("/usr"), std::string("/opt/*"),
          std::string("/opt/*/.venv"), variable("HOME") + "/.pyenv/versions/*"}) {
        for (const char* packages :
             {"/lib/python3*/site-packages", "/lib/python3*/dist-packages", "/lib/python3/dist-packages"}) {
            pythons.push_back(prefix + packages);
        }
    }
    for (const std::string& python : pythons) all.push_back(python + "/nvidia/*/lib");
    return all;
}

/// Opens the library for the module. Returns false if it was not found or does not open.
bool open_library(const std::string& name, const std::vector<std::string>& first) {
    constexpr int kForAll = RTLD_LAZY | RTLD_GLOBAL;
    void* library = nullptr;
    std::string path = find_library(name, first);
    if (path.empty()) library = dlopen(name.c_str(), kForAll);
    if (path.empty() && library == nullptr) path = find_library(name, usual_folders());
    if (!path.empty()) library = dlopen(path.c_str(), kForAll);
    if (library != nullptr && path.empty()) path = name;
    found().push_back({name, library ? path : ""});
    if (library == nullptr && !path.empty()) log::warn("{} does not open: {}", path, dlerror());
    return library != nullptr;
}

void* open_driver() {
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
}

/// Queries the driver first: a machine without one fails before half a gigabyte of libraries is opened.
void require_driver() {
    constexpr const char* kDo = "install NVIDIA's driver 580 or later, or compute on the CPU";
    void* driver = open_driver();
    require(driver != nullptr, Exit::kUnavailable, "there is no NVIDIA driver here (libcuda.so.1): {}", kDo);
    const auto call = [&](const char* name, auto... args) {
        auto* f = reinterpret_cast<int (*)(decltype(args)...)>(dlsym(driver, name));
        require(f != nullptr, Exit::kUnavailable, "the NVIDIA driver has no {}: {}", name, kDo);
        return f(args...);
    };
    int version = 0, cards = 0;
    const int asked = call("cuDriverGetVersion", &version);
    require(asked == 0 && version >= kDriverWanted, Exit::kUnavailable,
            "the NVIDIA driver is for CUDA {}.{}, this program for {}.{}: {}", version / 1000, version % 1000 / 10,
            kDriverWanted / 1000, kDriverWanted % 1000 / 10, kDo);
    // Three compute streams, two copy streams, the default stream and NCCL's streams exceed the driver's default of 8
    // queues. Streams that share a queue wait for each other.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
    const int started = call("cuInit", 0u);
    require(started == 0, Exit::kUnavailable,
            "the NVIDIA driver does not start (cuInit gives {}{}): see nvidia-smi, or compute on the CPU", started,
            started == 100 ? ", no device" : "");
    const int counted = call("cuDeviceGetCount", &cards);
    require(counted == 0 && cards > 0, Exit::kUnavailable,
            "no GPU is visible (CUDA_VISIBLE_DEVICES is '{}'): see nvidia-smi, or compute on the CPU",
            variable("CUDA_VISIBLE_DEVICES"));
}

}  // namespace

std::vector<std::string> python_packages(const std::string& path) {
    std::vector<std::string> folders;
    for (const std::string& bin : split(path)) {
        std::error_code error;
        const fs::path python = fs::path(bin) / "python3", real = fs::canonical(python, error);
        if (error) continue;
        for (const fs::path& of : {python, real}) {
            folders.push_back((of.parent_path().parent_path() / "lib/python3*/site-packages").lexically_normal());
        }
    }
    return folders;
}

std::string find_library(const std::string& name, const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
        glob_t matches{};
        std::string path;
        if (glob((folder + "/" + name).c_str(), 0, nullptr, &matches) == 0)
            path = matches.gl_pathv[matches.gl_pathc - 1];
        globfree(&matches);
        if (!path.empty()) return path;
    }
    return "";
}

bool has_nvidia_driver() {
    return open_driver() != nullptr;
}

void load_cuda_module() {
    static std::mutex mutex;  // ranks of a test are threads
    static bool loaded = false;
    const std::lock_guard lock(mutex);
    if (loaded) return;
    const fs::path folder = own_folder(), path = folder / "libtrireme_cuda.so";
    require(fs::exists(path), Exit::kUnavailable,
            "there is no CUDA module here ({} is missing): install the package trireme-cuda, build with nvcc, or "
            "compute on the CPU",
            path.string());
    require_driver();
    found().clear();
    std::vector<std::string> first = split(variable("TRIREME_CUDA_LIBS"));
    first.push_back(folder.string());
    require(open_library("libcublasLt.so.13", first), Exit::kUnavailable,
            "libcublasLt.so.13 was not found: pip install nvidia-cublas, install CUDA 13, or name its "
            "folder in TRIREME_CUDA_LIBS");
    if (!open_library("libnccl.so.2", first))
        log::debug("libnccl.so.2 was not found: several ranks go through host memory");
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(module != nullptr, Exit::kUnavailable, "{} does not open: {}", path.string(), module ? "" : dlerror());
    auto* enter = reinterpret_cast<void (*)()>(dlsym(module, "trireme_register_cuda"));
    require(enter != nullptr, Exit::kUnavailable, "{} is not this program's", path.string());
    enter();
    loaded = true;
}

const std::vector<FoundLibrary>& cuda_libraries() {
    return found();
}

}  // namespace trireme
