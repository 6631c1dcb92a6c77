#pragma once
/// PeerWatch: detects at once that the process of another rank on this machine has ended, for any reason. MpiComm then
/// ends this rank as well.

#include <functional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace trireme {

/// Returns "MACHINE PID" of this process; MACHINE is empty if unknown. Processes with the same MACHINE see each other
/// by their PIDs: they share the boot of a machine and a PID namespace.
std::string process_name();
/// Returns the PID in names[0] if all of `names` have one known MACHINE, otherwise 0.
pid_t first_of_one_machine(const std::vector<std::string>& names);

/// A thread that waits for the end of processes. Open MPI 4.1 takes 2 s to end the remaining ranks, and srun may not
/// end them at all.
class PeerWatch {
  public:
    /// Called at most once, on the thread of the watch, with a rank that has ended.
    using Gone = std::function<void(int rank)>;

    /// `names`: process_name() of all ranks, in rank order. Ranks on other machines and this process are not watched;
    /// where the kernel or a container forbids it, no rank is. Not collective.
    PeerWatch(const std::vector<std::string>& names, Gone gone);
    PeerWatch(const PeerWatch&) = delete;
    PeerWatch& operator=(const PeerWatch&) = delete;
    /// Stops the watch; ranks may end afterwards.
    ~PeerWatch();

  private:
    struct Peer {
        int rank, descriptor;  // a pidfd; -1: the process had ended before
    };

    void watch(const std::string& name, int rank);  // adds the rank to peers_, if it can be watched
    void run() const;                               // body of the thread

    Gone gone_;
    std::vector<Peer> peers_;
    int stop_;  // an eventfd
    std::thread thread_;
};

}  // namespace trireme
