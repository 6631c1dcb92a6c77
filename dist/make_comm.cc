#include "dist/make_comm.h"

#include <cstdlib>

#include "dist/mpi_comm.h"
#include "dist/rank_env.h"
#include "dist/self_comm.h"

namespace trireme {

std::unique_ptr<Comm> make_comm() {
    const int ranks = rank_env(std::getenv).size;
    if (ranks == 1) return std::make_unique<SelfComm>();
    return std::make_unique<MpiComm>(ranks);
}

}  // namespace trireme
