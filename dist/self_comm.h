#pragma once
/// SelfComm: the Comm of a run with a single rank, and of a draft model that every rank holds whole.

#include "dist/comm.h"

namespace trireme {

class SelfComm final : public Comm {
  public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    const char* name() const override { return "self"; }
    /// Flushes stdio and exits without destructors: streams may still be at work.
    [[noreturn]] void abort(Exit code) override;

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    bool streams_share() const override { return false; }
    std::vector<std::string> do_gather(const std::string& mine) override;
};

}  // namespace trireme
