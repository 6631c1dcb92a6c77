#include <cstdlib>
#include <set>

#include "dist/cuda/nccl_comm.h"
#include "dist/make_comm.h"
#include "dist/staged_comm.h"
#include "runtime/cuda/call.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// GeForce GPUs refuse to read each other's memory; some drivers report that they can, and then hang.
void settle_peer_access(const CardFacts& mine) {
    bool all = true;
    const int visible = count_cards();
    for (int other = 0; other < visible; ++other) {
        int can = 1;
        if (other != mine.index) cuda(cudaDeviceCanAccessPeer(&can, mine.index, other), "cudaDeviceCanAccessPeer");
        all = all && can != 0;
    }
    // Also if this rank sees one GPU only: NCCL reaches those that other ranks see.
    if (mine.geforce) setenv("NCCL_P2P_DISABLE", "1", /*overwrite=*/0);
    if (all && !mine.geforce) return;
    log::info("{}: no access to other GPUs' memory: NCCL goes through host memory", mine.name);
}

}  // namespace

std::unique_ptr<Comm> make_cuda_comm(Comm& control, Device& device) {
    if (control.size() == 1) return nullptr;
    CudaDevice& card = cuda(device);
    const std::vector<std::string> places = device_places(control, device);
    const bool shared = std::set<std::string>(places.begin(), places.end()).size() < places.size();
    const NcclApi* nccl = nccl_api();
    const bool everywhere = control.agree(nccl ? Exit::kOk : Exit::kUnavailable) == Exit::kOk;
    if (shared || !everywhere) {
        log::info("ranks add through pinned host memory and {}: {}", control.name(),
                  shared ? "some share a GPU" : "a rank has no libnccl.so.2");
        return std::make_unique<StagedComm>(control, device);
    }
    settle_peer_access(card.facts());
    auto comm = std::make_unique<NcclComm>(*nccl, control, card);
    comm->connect();
    log::info("ranks add by {}", comm->ways());
    return comm;
}

}  // namespace trireme
