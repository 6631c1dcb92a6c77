#pragma once
/// MpiExchange: messages between all pairs of ranks at once. All calls of MpiComm that send messages use this pattern.

#include <cstddef>
#include <mutex>
#include <vector>

#include <mpi.h>

#include "dist/watchdog.h"

namespace trireme {

/// Returns if `code`, which an MPI call returned, is MPI_SUCCESS. Errors: Exit::kUnavailable; `call` is the call's name
/// in the message.
void mpi(int code, const char* call);

/// Bytes to or from one peer. The memory is the caller's.
struct Message {
    void* data;
    size_t bytes;
};

/// Owns a duplicate of MPI_COMM_WORLD and the requests of the running call. A rank has one for device calls and one for
/// control calls. They share a mutex: MPI is initialised as SERIALIZED, because MULTIPLE costs 0.3 us per call. A
/// device call holds the mutex until it is done. A control call releases it between polls, so it never blocks device
/// calls.
class MpiExchange {
  public:
    /// A collective call. `lane`: which of the two it is. `crowded`: the node has more ranks than cores, so a waiting
    /// rank yields its core. `mutex` and `watchdog` must outlive the object.
    MpiExchange(std::mutex& mutex, Watchdog& watchdog, Watchdog::Lane lane, bool crowded);
    ~MpiExchange();
    MpiExchange(const MpiExchange&) = delete;
    MpiExchange& operator=(const MpiExchange&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }

    /// Sends the Message to(q) to every other rank q, receives from(q) from it, and returns when all are done. `call`
    /// (a literal) names the call in errors. Errors: Exit::kInternal for a shorter message than expected, or one above
    /// INT_MAX bytes; kUnavailable for a longer one than expected.
    template <class To, class From>
    void run(const char* call, const To& to, const From& from) {
        const Watchdog::Watch watch(watchdog_, lane_, call);
        std::unique_lock lock(mutex_);
        // Rank r begins with r + 1, so that not all ranks send to rank 0 first.
        for (int d = 1; d < size_; ++d) receive(call, (rank_ + d) % size_, from((rank_ + d) % size_));
        for (int d = 1; d < size_; ++d) send(call, (rank_ + d) % size_, to((rank_ + d) % size_));
        finish(call, lock);
    }

  private:
    void receive(const char* call, int from, const Message& message);
    void send(const char* call, int to, const Message& message);
    void finish(const char* call, std::unique_lock<std::mutex>& lock);  // waits for all requests

    std::mutex& mutex_;
    Watchdog& watchdog_;
    Watchdog::Lane lane_;
    bool crowded_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1;
    std::vector<MPI_Request> requests_;  // receives, then sends
    std::vector<MPI_Status> statuses_;   // of requests_
    std::vector<int> wanted_;            // bytes that each receive expects
    std::vector<int> peers_;             // rank from which each receive comes
};

}  // namespace trireme
