// Entry point of libtrireme_cuda.so: registers its devices, kernels and communicator.

#include "dist/cuda/nccl_comm.h"
#include "dist/make_comm.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/kernels.h"
#include "runtime/cuda/device.h"
#include "runtime/device.h"

namespace {

std::unique_ptr<trireme::Device> open_card(const trireme::DeviceRequest& request) {
    return std::make_unique<trireme::CudaDevice>(request);
}

}  // namespace

extern "C" void trireme_register_cuda() {
    trireme::device_makers().add("cuda", open_card);
    trireme::device_listers().add("cuda", trireme::list_cards);
    trireme::kernels_makers().add("cuda", trireme::make_cuda_kernels);
    trireme::tile_coder_makers().add("cuda", trireme::make_cuda_tile_coder);
    trireme::device_comm_makers().add("cuda", trireme::make_cuda_comm);
}
