#include "dist/cuda/nccl_api.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace trireme {
namespace {

struct Loaded {
    NcclApi api{};
    bool complete = true;

    Loaded() {
        // The loader of the module has opened it, if it was found (runtime/module.cc).
        void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
        const auto find = [&](auto& function, const char* name) {
            function =
                library ? reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name)) : nullptr;
            complete = complete && function != nullptr;
        };
        find(api.get_version, "ncclGetVersion");
        find(api.get_unique_id, "ncclGetUniqueId");
        find(api.comm_init_rank_config, "ncclCommInitRankConfig");
        find(api.comm_get_async_error, "ncclCommGetAsyncError");
        find(api.comm_finalize, "ncclCommFinalize");
        find(api.comm_destroy, "ncclCommDestroy");
        find(api.comm_abort, "ncclCommAbort");
        find(api.all_reduce, "ncclAllReduce");
        find(api.send, "ncclSend");
        find(api.recv, "ncclRecv");
        find(api.group_start, "ncclGroupStart");
        find(api.group_end, "ncclGroupEnd");
        find(api.get_error_string, "ncclGetErrorString");
    }
};

}  // namespace

const NcclApi* nccl_api() {
    static const Loaded loaded;
    return loaded.complete ? &loaded.api : nullptr;
}

std::string nccl_version(const NcclApi& api) {
    int v = 0;
    api.get_version(&v);
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace trireme
