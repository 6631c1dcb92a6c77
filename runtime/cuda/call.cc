#include "runtime/cuda/call.h"

#include <atomic>
#include <string>

#include "runtime/error.h"

namespace trireme {
namespace {

std::atomic<bool> given_up{false};

[[noreturn]] void report(cudaError_t code, const char* call, const std::string& where) {
    // Clears the error of a launch, which remains until it is read. The error of a kernel that ran cannot be cleared.
    cudaGetLastError();
    throw Error(code == cudaErrorMemoryAllocation ? Exit::kOs : Exit::kUnavailable,
                fmt::format("{}{}: {} ({})", call, where, cudaGetErrorString(code), cudaGetErrorName(code)));
}

}  // namespace

void cuda(cudaError_t code, const char* call) {
    if (code != cudaSuccess) [[unlikely]]
        report(code, call, "");
}

void cuda(cudaError_t code, const char* call, const char* stream, const char* after) {
    if (code != cudaSuccess) [[unlikely]]
        report(code, call, fmt::format(" (stream {}, after {})", stream, after));
}

void give_up_cards() {
    given_up.store(true);
}

bool cards_given_up() {
    return given_up.load();
}

}  // namespace trireme
