#include "tests/support/thread_comm.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string_view>

#include "dist/ordered_sum.h"

namespace trireme {
namespace {

using Bytes = std::vector<std::byte>;

/// Where ranks meet: one lane for device calls, one for control calls. A rank writes its bytes to its slot and reads
/// the other slots. Slots alternate between two sets. No rank can be two calls ahead, so slots are unchanged until all
/// ranks have read them, and no second meeting is needed. The group owns the slots: other ranks may still read those of
/// a rank that left a call with an error.
class Group {
  public:
    enum Lane : size_t { kDevice, kControl };

    Group(int size, double timeout_s) : size_(size), timeout_s_(timeout_s), left_(static_cast<size_t>(size)) {
        for (auto& room : rooms_) {
            for (auto& slots : room.slots) slots.resize(static_cast<size_t>(size));
            room.came.resize(static_cast<size_t>(size));
        }
    }

    int size() const { return size_; }

    /// Returns the bytes of every rank, in rank order; valid until this rank's next call but one.
    const std::vector<Bytes>& exchange(Lane lane, int rank, const char* call, const void* data, size_t bytes);
    void leave(int rank);
    [[noreturn]] void abort(int rank, Exit code);

  private:
    struct Room {
        uint64_t meetings = 0;
        int waiting = 0;
        std::vector<bool> came;
        std::array<std::vector<Bytes>, 2> slots;
    };

    void end(Exit code, std::string why);
    int missing(const Room& room) const;

    const int size_;
    const double timeout_s_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<Room, 2> rooms_;
    std::vector<bool> left_;
    Exit ended_ = Exit::kOk;
    std::string why_;
};

const std::vector<Bytes>& Group::exchange(Lane lane, int rank, const char* call, const void* data, size_t bytes) {
    Room& room = rooms_[lane];
    const size_t me = static_cast<size_t>(rank);
    std::unique_lock lock(mutex_);
    const uint64_t meeting = room.meetings;
    std::vector<Bytes>& slots = room.slots[meeting % 2];

    lock.unlock();  // only this rank uses its slot of this meeting until all ranks have come
    slots[me].resize(bytes);
    if (bytes) std::memcpy(slots[me].data(), data, bytes);
    lock.lock();

    if (ended_ != Exit::kOk) throw Error(ended_, why_);
    room.came[me] = true;
    if (++room.waiting == size_) {
        room.waiting = 0;
        room.came.assign(room.came.size(), false);
        ++room.meetings;
        changed_.notify_all();
        return slots;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s_);
    while (room.meetings == meeting) {
        if (ended_ != Exit::kOk) throw Error(ended_, why_);
        const int absent = missing(room);
        if (left_[static_cast<size_t>(absent)]) {
            end(Exit::kUnavailable,
                fmt::format("rank {} waits in {} (call {}), but rank {} has left", rank, call, meeting, absent));
        } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && room.meetings == meeting) {
            end(Exit::kUnavailable, fmt::format("rank {}: {} (call {}) has waited {} s for rank {}", rank, call,
                                                meeting, timeout_s_, missing(room)));
        }
    }
    return slots;
}

void Group::leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
}

void Group::abort(int rank, Exit code) {
    const std::lock_guard lock(mutex_);
    end(code, fmt::format("rank {} ended the run with {}", rank, static_cast<int>(code)));
    throw Error(ended_, why_);
}

void Group::end(Exit code, std::string why) {
    if (ended_ != Exit::kOk) return;
    ended_ = code;
    why_ = std::move(why);
    changed_.notify_all();
}

/// Returns a rank that has not come to the meeting; one that has left, if there is one.
int Group::missing(const Room& room) const {
    int absent = 0;
    for (int r = size_ - 1; r >= 0; --r) {
        if (!room.came[static_cast<size_t>(r)]) absent = r;
    }
    for (int r = 0; r < size_; ++r) {
        if (!room.came[static_cast<size_t>(r)] && left_[static_cast<size_t>(r)]) return r;
    }
    return absent;
}

class ThreadComm final : public Comm {
  public:
    ThreadComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
    ~ThreadComm() override { group_->leave(rank_); }

    int rank() const override { return rank_; }
    int size() const override { return group_->size(); }
    const char* name() const override { return "threads"; }
    [[noreturn]] void abort(Exit code) override { group_->abort(rank_, code); }

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override {
        stream.call_host("all_reduce", x.bytes(), [this, to = static_cast<float*>(x.data()), n = x.shape().elements()] {
            const auto& parts = device_exchange("all_reduce", to, static_cast<size_t>(n) * sizeof(float));
            ordered_sum(to, size(), n,
                        [&](int r) { return reinterpret_cast<const float*>(parts[static_cast<size_t>(r)].data()); });
        });
    }

    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override {
        stream.call_host("all_gather", out.bytes(),
                         [this, to = static_cast<char*>(out.data()), from = part.data(), bytes = part.bytes()] {
                             const auto& parts = device_exchange("all_gather", from, bytes);
                             for (size_t r = 0; r < parts.size(); ++r) {
                                 std::memcpy(to + r * bytes, parts[r].data(), bytes);
                             }
                         });
    }

    std::vector<std::string> do_gather(const std::string& mine) override {
        std::vector<std::string> all;
        for (const Bytes& b : group_->exchange(Group::kControl, rank_, "a control call", mine.data(), mine.size())) {
            all.emplace_back(reinterpret_cast<const char*>(b.data()), b.size());
        }
        return all;
    }

    const std::vector<Bytes>& device_exchange(const char* call, const void* data, size_t bytes) {
        const auto& parts = group_->exchange(Group::kDevice, rank_, call, data, bytes);
        for (size_t r = 0; r < parts.size(); ++r) {
            check(parts[r].size() == bytes, "{}: {} bytes on rank {}, {} on rank {}", call, bytes, rank_,
                  parts[r].size(), r);
        }
        return parts;
    }

    std::shared_ptr<Group> group_;
    int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int size, double timeout_s) {
    check(size >= 1, "thread ranks: {} requested", size);
    const auto group = std::make_shared<Group>(size, timeout_s);
    std::vector<std::unique_ptr<Comm>> comms;
    comms.reserve(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) comms.push_back(std::make_unique<ThreadComm>(group, r));
    return comms;
}

}  // namespace trireme
