#pragma once
/// MpiComm: the Comm of ranks that are processes, started by mpirun or srun.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"

namespace trireme {

/// Owns MPI from its initialisation to its end: one object in the life of a process, made before other threads are
/// started (it sets an environment variable that MPI reads). Device calls run on the stream's thread, control calls on
/// the caller's, each on its own MPI communicator. If all ranks are on one machine, device calls use shared memory and
/// no messages (SharedSums). A watchdog enforces the deadline.
class MpiComm final : public Comm {
  public:
    /// A collective call. `ranks`: the launcher's number of ranks; 0: unknown. Errors: Exit::kUnavailable if MPI cannot
    /// be started or has another number of ranks; kUsage if srun's tasks cannot find each other.
    explicit MpiComm(int ranks);
    /// Waits for all ranks (MPI_Finalize). While an exception is in flight, it aborts the run with Exit::kInternal.
    ~MpiComm() override;

    int rank() const override;
    int size() const override;
    /// Returns what device calls go through: "shared memory", or "mpi (why)".
    const char* name() const override;
    /// Ends every rank with `code`; this one within 2 s, even if MPI or stdio hangs.
    [[noreturn]] void abort(Exit code) override;

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override;

    class Impl;  // keeps mpi.h out
    std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
