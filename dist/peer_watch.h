#pragma once
/// PeerWatch: detects at once that the process of another rank on this machine has ended, for any reason.

#include <functional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace trireme {

/// Returns "MACHINE PID" of this process. Processes with the same MACHINE see each other by their PIDs.
std::string process_name();
/// Returns the PID of the first process if all are on one machine; 0 if not, or if that is unknown.
pid_t first_of_one_machine(const std::vector<std::string>& names);

/// A thread that waits for the end of processes. Open MPI 4.1 takes 2 s to end the remaining ranks, and srun may not
/// end them at all.
class PeerWatch {
  public:
    /// Called at most once, on the thread of the watch, with the rank that has ended.
    using Gone = std::function<void(int rank)>;

    /// `names`: process_name() of all ranks, in rank order. Ranks on other machines and this process are not watched;
    /// where the kernel or a container forbids it, no rank is.
    PeerWatch(const std::vector<std::string>& names, Gone gone);
    PeerWatch(const PeerWatch&) = delete;
    PeerWatch& operator=(const PeerWatch&) = delete;
    /// Stops the watch; ranks may end afterwards.
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
