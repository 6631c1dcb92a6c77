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

/// Returns null if runtime/module.cc has not opened libnccl.so.2 before, or it lacks a function that is used here. The
/// first result is kept.
const NcclApi* nccl_api();
/// Returns a string like "2.28.9".
std::string nccl_version(const NcclApi& api);

}  // namespace trireme
