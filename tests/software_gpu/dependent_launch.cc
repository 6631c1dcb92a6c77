// A library for LD_PRELOAD that gives the software GPU dependent launches (runtime/cuda/launch_kernel.h), and checks
// them: directly ahead of a dependent launch, its stream must have a kernel. After a copy, an event, a graph or a
// product of cuBLASLt, the process ends by abort(): CUDA describes such a launch after a kernel only. Calls of NCCL are
// not seen, because the engine takes NCCL's functions from its handle (dist/cuda/nccl_api.cc).
//
// A dependent launch is executed as an ordinary one. TRIREME_LAUNCHES names a file to which each process that launched
// kernels appends "D dependent launches of N".

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <unordered_map>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace {

// The last operation of each stream (null: a kernel), and the number of launches.
struct Streams {
    std::mutex mutex;
    std::unordered_map<cudaStream_t, const char*> last;
    long launches = 0, dependent = 0;

    ~Streams() {
        const char* path = std::getenv("TRIREME_LAUNCHES");
        if (path == nullptr || launches == 0) return;
        char line[80];
        const int n = std::snprintf(line, sizeof line, "%ld dependent launches of %ld\n", dependent, launches);
        const int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
        if (file < 0 || write(file, line, static_cast<size_t>(n)) != n) std::perror(path);
        close(file);
    }

    void operation(cudaStream_t stream, const char* name) {
        const std::lock_guard lock(mutex);
        last[stream] = name;
    }

    void kernel(cudaStream_t stream, bool is_dependent) {
        const std::lock_guard lock(mutex);
        const char*& before = last.try_emplace(stream, "the stream's creation").first->second;
        if (is_dependent && before != nullptr) {
            std::fprintf(stderr, "dependent_launch: a dependent launch directly after %s\n", before);
            std::abort();
        }
        before = nullptr;
        ++launches;
        dependent += is_dependent;
    }
};

Streams& streams() {
    static Streams streams;
    return streams;
}

constexpr auto kCudart = "libcudart.so.13";

// Calls the function that the software GPU's library has under this name. The arguments give its type.
template <class Result, class... Arguments>
Result call(const char* library, const char* name, Arguments... arguments) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void* found = handle != nullptr ? dlsym(handle, name) : nullptr;
    if (found == nullptr) {
        std::fprintf(stderr, "dependent_launch: %s has no %s\n", library, name);
        std::abort();
    }
    dlclose(handle);
    return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
}

template <class... Arguments>
cudaError_t on_stream(cudaStream_t stream, const char* name, Arguments... arguments) {
    streams().operation(stream, name);
    return call<cudaError_t>(kCudart, name, arguments...);
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments, size_t shared,
                             cudaStream_t stream) {
    streams().kernel(stream, false);
    return call<cudaError_t>(kCudart, "cudaLaunchKernel", kernel, blocks, threads, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
    if (config->numAttrs != 1 || config->attrs->id != cudaLaunchAttributeProgrammaticStreamSerialization ||
        config->attrs->val.programmaticStreamSerializationAllowed != 1) {
        return cudaErrorInvalidValue;
    }
    streams().kernel(config->stream, true);
    return call<cudaError_t>(kCudart, "cudaLaunchKernel", kernel, config->gridDim, config->blockDim, arguments,
                             config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = {};
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return on_stream(stream, "cudaMemcpyAsync", to, from, bytes, kind, stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return on_stream(stream, "cudaMemsetAsync", to, value, bytes, stream);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return on_stream(stream, "cudaEventRecord", event, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return on_stream(stream, "cudaStreamWaitEvent", stream, event, flags);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return on_stream(stream, "cudaLaunchHostFunc", stream, function, data);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    return on_stream(stream, "cudaGraphLaunch", graph, stream);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return on_stream(stream, "cudaStreamBeginCapture", stream, mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return on_stream(stream, "cudaStreamEndCapture", stream, graph);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t compute, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    streams().operation(stream, "cublasLtMatmul");
    return call<cublasStatus_t>("libcublasLt.so.13", "cublasLtMatmul", handle, compute, alpha, a, a_layout, b, b_layout,
                                beta, c, c_layout, d, d_layout, algorithm, workspace, workspace_bytes, stream);
}

}  // extern "C"
