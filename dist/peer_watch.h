#pragma once
/// Notices at once that the process of another rank of this machine has ended, however it did.

#include <functional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace trireme {

/// "MACHINE PID" of this process. Processes that have the same MACHINE see each other by their numbers.
std::string process_name();
/// The number of the first process, if all are of one machine; else, and where that is not known, 0.
pid_t first_of_one_machine(const std::vector<std::string>& names);

/// A thread that waits for the end of processes. Open MPI 4.1 takes 2 s to end the ranks that are left, and srun may
/// not end them at all.
class PeerWatch {
  public:
    /// Called once, on a thread of its own, with the rank that has ended.
    using Gone = std::function<void(int rank)>;

    /// `names`: process_name() of all ranks, in their order. Those on other machines, and this process itself, are not
    /// watched; nor is anybody where the kernel or a container does not allow it.
    PeerWatch(const std::vector<std::string>& names, Gone gone);
    PeerWatch(const PeerWatch&) = delete;
    PeerWatch& operator=(const PeerWatch&) = delete;
    /// From here on ranks may end.
    ~PeerWatch();

  private:
    struct Peer {
        int rank, descriptor;
    };

    void watch(const std::string& name, int rank);
    void run() const;

    Gone gone_;
    std::vector<Peer> peers_;
    int stop_;  // an eventfd
    std::thread thread_;
};

}  // namespace trireme
