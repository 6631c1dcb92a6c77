#include "dist/self_comm.h"

#include <cstdio>
#include <cstdlib>

namespace trireme {

void SelfComm::abort(Exit code) {
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(code));
}

void SelfComm::do_all_reduce(Stream&, const Tensor&) {}

void SelfComm::do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) {
    if (out.data() != part.data()) stream.copy(Tensor(out.data(), out.dtype(), part.shape()), part);
}

std::vector<std::string> SelfComm::do_gather(const std::string& mine) {
    return {mine};
}

}  // namespace trireme
