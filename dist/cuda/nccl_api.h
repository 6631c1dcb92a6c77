#pragma once
/// NCCL's functions, found when the program runs: one card needs no NCCL.

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

/// Null if libnccl.so.2 is not in the process, or lacks a function that is used here.
const NcclApi* nccl_api();
/// "2.28.9"
std::string nccl_version(const NcclApi& api);

}  // namespace trireme
