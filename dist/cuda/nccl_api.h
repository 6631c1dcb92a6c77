#pragma once
/// NcclApi: NCCL's functions, looked up at run time, so that a run on one GPU works without NCCL.

#include <string>

#include <nccl.h>

namespace trireme {

struct NcclApi {
    decltype(&ncclGetVersion) get_version;
    decltype(&ncclGetUniqueId) get_unique_id;
    decltype(&ncclCommInitRankConfig) comm_init_rank_config;
    decltype(&ncclCommGetAsyncError) comm_get_async_error;
    decltype(&ncclCommFinalize) comm_finalize;
    decltype(&ncclCommDestroy) comm_destroy;
    decltype(&ncclCommAbort) comm_abort;
    decltype(&ncclAllReduce) all_reduce;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) recv;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclGetErrorString) get_error_string;
};

/// Returns the functions of libnccl.so.2, which load_cuda_module() (runtime/module.h) has opened before. Null if it was
/// not found, or lacks a function of NcclApi. The first result is kept.
const NcclApi* nccl_api();
/// Returns a string like "2.28.9".
std::string nccl_version(const NcclApi& api);

}  // namespace trireme
