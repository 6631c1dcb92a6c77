#include "dist/cuda/mailboxes.h"

#include "dist/peer_watch.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/launch.h"
#include "runtime/env.h"

namespace trireme {

static_assert(sizeof(gpu::Mailbox) % 4096 == 0, "SharedMemory has whole pages for each rank");

Mailboxes::Mailboxes(Comm& control, CudaDevice& device)
    : rank_(control.rank()),
      ranks_(control.size()),
      memory_(
          rank_, control.gather_bytes(process_name()), sizeof(gpu::Mailbox),
          [&](const std::string& mine) { return control.gather_bytes(mine); },
          [this] {
              require(env().shm_sums.value_or(true), Exit::kConfig, "TRIREME_SHM_SUMS=0");
              require(ranks_ <= gpu::MailboxSum::kThreads, Exit::kConfig, "{} ranks", ranks_);
          }) {
    const size_t bytes = static_cast<size_t>(ranks_) * sizeof(gpu::Mailbox);
    std::string obstacle;
    cudaError_t code = cudaHostRegister(memory_.data(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    const bool registered = code == cudaSuccess;
    void* mapped = nullptr;
    if (registered) code = cudaHostGetDevicePointer(&mapped, memory_.data(), 0);
    if (code != cudaSuccess) {
        cudaGetLastError();
        obstacle = fmt::format("a GPU does not map shared memory: {}", cudaGetErrorString(code));
    } else if (mapped != memory_.data()) {
        obstacle = "a GPU sees shared memory at another address than the host";
    } else {
        try {
            calls_ = Buffer<Space::kDevice>(device, gpu::Mailbox::kBlocks * sizeof(uint32_t));  // zeros
        } catch (const Error& e) {
            obstacle = e.what();
        }
    }
    for (const std::string& reason : control.gather_bytes(obstacle)) {
        if (reason.empty()) continue;
        if (registered) cudaHostUnregister(memory_.data());
        throw AgreedError(Exit::kUnavailable, reason);
    }
}

// A kernel of a GPU that was given up may still use the memory: it stays, until the process ends.
Mailboxes::~Mailboxes() {
    if (cards_given_up()) {
        memory_.keep();
    } else {
        cudaHostUnregister(memory_.data());
    }
}

void Mailboxes::all_reduce(CudaStream& stream, float* x, int64_t n) {
    check(n <= kMost, "all_reduce: {} floats in a mailbox of {}", n, kMost);
    gpu::launch<gpu::MailboxSum>(stream, "all_reduce", static_cast<size_t>(n) * sizeof(float),
                                 {gpu::div_up(n, gpu::Mailbox::kFloats)},
                                 {x, n, boxes(), static_cast<uint32_t*>(calls_.data()), ranks_, rank_});
}

void Mailboxes::stop() noexcept {
    static_cast<volatile uint32_t&>(boxes()[rank_].stop.value) = 1;
}

}  // namespace trireme
