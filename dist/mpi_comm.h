#pragma once
/// MpiComm: ranks as processes that mpirun or srun started.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"

namespace trireme {

/// Owns MPI from its initialisation to its end: one object in the life of a process, made before other threads are
/// started (it sets an environment variable that MPI reads). Collectives run on the stream's thread, control calls on
/// the caller's, each on its own communicator. Ranks of one machine run collectives in shared memory. A watchdog
/// enforces the deadline.
class MpiComm final : public Comm {
  public:
    /// `ranks`: the launcher's number of ranks; 0: unknown.
    /// Errors: Exit::kUnavailable, if MPI cannot be started or has another number of ranks.
    explicit MpiComm(int ranks);
    /// Waits for all ranks; while an exception is in flight it aborts the run with Exit::kInternal instead.
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
