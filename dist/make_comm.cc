#include "dist/make_comm.h"

#include "dist/mpi_comm.h"
#include "dist/self_comm.h"

namespace trireme {

std::unique_ptr<Comm> make_comm(const CommOptions& options) {
    check(options.ranks >= 0, "make_comm: {} ranks", options.ranks);
    if (options.ranks == 1) return std::make_unique<SelfComm>();
    return std::make_unique<MpiComm>(MpiOptions{options.ranks, options.max_elements});
}

}  // namespace trireme
