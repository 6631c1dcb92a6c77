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

Registry<DeviceCommMaker>& device_comm_makers() {
    static Registry<DeviceCommMaker> makers;
    return makers;
}

std::vector<std::string> device_places(Comm& control, const Device& device) {
    return control.gather_bytes(host_name() + ' ' + device.place());
}

std::unique_ptr<Comm> make_device_comm(Comm& control, Device& device) {
    const DeviceCommMaker maker = device_comm_makers().find(device.backend());
    return maker ? maker(control, device) : nullptr;
}

}  // namespace trireme
