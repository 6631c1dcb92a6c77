#pragma once
/// Ranks as processes that mpirun or srun started.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"

namespace trireme {

/// MPI from its initialisation to its end: one object per process and life, made before other threads are started
/// (it sets an environment variable that MPI reads). Collectives run on the stream's thread, control calls on the
/// caller's, each on a communicator of its own; collectives of ranks of one machine through memory that they share. A
/// watchdog is the deadline of all.
class MpiComm final : public Comm {
  public:
    /// `ranks`: how many the launcher says there are; 0: it does not say.
    /// Errors: Exit::kUnavailable, if MPI cannot be started or sees another number of them.
    explicit MpiComm(int ranks);
    /// Waits for all ranks, unless an exception is on its way: then the run is aborted with Exit::kInternal.
    ~MpiComm() override;

    int rank() const override;
    int size() const override;
    /// "shared memory", or "mpi (why)": what device calls go through.
    const char* name() const override;
    /// Every rank leaves with `code`; this one within 2 s, even if MPI or stdio hangs.
    [[noreturn]] void abort(Exit code) override;

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override;

    class Impl;  // keeps mpi.h out
    std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
