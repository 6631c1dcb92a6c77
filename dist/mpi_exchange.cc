#include "dist/mpi_exchange.h"

#include <climits>
#include <string>

#include "dist/patience.h"
#include "runtime/error.h"

namespace trireme {
namespace {

int count_of(const char* call, const Message& message) {
    check(message.bytes <= INT_MAX, "{}: a message of {} bytes, MPI takes at most {}", call, message.bytes, INT_MAX);
    return static_cast<int>(message.bytes);
}

}  // namespace

void mpi(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    std::string text(MPI_MAX_ERROR_STRING, '\0');
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    text.resize(static_cast<size_t>(length));
    fail(Exit::kUnavailable, "{}: {}", call, text);
}

MpiExchange::MpiExchange(std::mutex& mutex, Watchdog& watchdog, Watchdog::Lane lane, bool crowded)
    : mutex_(mutex), watchdog_(watchdog), lane_(lane), crowded_(crowded) {
    const Watchdog::Watch watch(watchdog_, lane_, "MPI_Comm_dup");
    mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    const size_t messages = 2 * static_cast<size_t>(size_ - 1);
    requests_.reserve(messages);
    statuses_.resize(messages);
    wanted_.reserve(messages);
    peers_.reserve(messages);
}

MpiExchange::~MpiExchange() {
    const Watchdog::Watch watch(watchdog_, lane_, "MPI_Comm_free");
    MPI_Comm_free(&comm_);
}

void MpiExchange::receive(const char* call, int from, const Message& message) {
    const int bytes = count_of(call, message);
    mpi(MPI_Irecv(message.data, bytes, MPI_BYTE, from, 0, comm_, &requests_.emplace_back()), call);
    wanted_.push_back(bytes);
    peers_.push_back(from);
}

void MpiExchange::send(const char* call, int to, const Message& message) {
    const int bytes = count_of(call, message);
    mpi(MPI_Isend(message.data, bytes, MPI_BYTE, to, 0, comm_, &requests_.emplace_back()), call);
}

void MpiExchange::finish(const char* call, std::unique_lock<std::mutex>& lock) {
    Patience patience(crowded_ ? std::chrono::microseconds(0) : Patience::kAwake);
    for (int done = 0;;) {
        const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
        if (code == MPI_ERR_IN_STATUS) {
            for (size_t i = 0; i < requests_.size(); ++i) {
                if (statuses_[i].MPI_ERROR != MPI_ERR_PENDING) mpi(statuses_[i].MPI_ERROR, call);
            }
        }
        mpi(code, call);
        if (done) break;
        if (lane_ == Watchdog::kControl) lock.unlock();
        patience.wait();
        if (lane_ == Watchdog::kControl) lock.lock();
    }
    for (size_t i = 0; i < wanted_.size(); ++i) {
        int bytes = 0;
        mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), call);
        check(bytes == wanted_[i], "{}: rank {} sent {} bytes, rank {} expected {}", call, peers_[i], bytes, rank_,
              wanted_[i]);
    }
    requests_.clear();
    wanted_.clear();
    peers_.clear();
}

}  // namespace trireme
