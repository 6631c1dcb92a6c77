#include "tests/simt/block.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace trireme::simt {
int Gpu::block_x() const {
    return block_.index_[0];
}
int Gpu::block_y() const {
    return block_.index_[1];
}
int Gpu::block_z() const {
    return block_.index_[2];
}
void* Gpu::shared() const {
    return block_.shared_;
}

void Gpu::check_aligned(const void* p) {
    check(reinterpret_cast<uintptr_t>(p) % sizeof(gpu::Bits16) == 0, "simt: 16 bytes are read at {}", p);
}

void Gpu::sync() {
    block_.meet(block_.all_, block_.threads_, 0);
}

void Gpu::copy_async(void* to, const void* from, bool real) {
    check_aligned(to);
    check_aligned(from);
    std::memset(to, 0xff, sizeof(gpu::Bits16));
    copies_.push_back({to, from, real});
}

void Gpu::complete(size_t left) {
    if (ended_.size() <= left) return;
    const size_t groups = ended_.size() - left, count = ended_[groups - 1];
    for (size_t i = count; i-- > 0;) {
        const Copy& c = copies_[i];
        if (c.real) std::memcpy(c.to, c.from, sizeof(gpu::Bits16));
        if (!c.real) std::memset(c.to, 0, sizeof(gpu::Bits16));
    }
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(count));
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(groups));
    for (size_t& end : ended_) end -= count;
}

void Gpu::fault(gpu::Fault kind, int64_t x, int64_t y) {
    if (block_.fault.kind == gpu::Fault::kNone) block_.fault = {kind, x, y};
}

// Two sets of letters: a lane that writes the next set may be ahead of one that reads this set, but not by two.
const Gpu::Letters& Gpu::exchange(const std::array<std::byte, kLetter>& letter, int operation) {
    Block::Warp& warp = block_.warps_[static_cast<size_t>(thread_ / gpu::kWarp)];
    Letters& letters = warp.letters[warp.meeting.generation % 2];
    letters[static_cast<size_t>(lane())] = letter;
    block_.meet(warp.meeting, gpu::kWarp, operation);
    return letters;
}

void Block::meet(Meeting& meeting, int threads, int operation) {
    if (meeting.arrived == 0) meeting.operation = operation;
    check(meeting.operation == operation, "simt: threads of block ({}, {}, {}) meet in different operations", index_[0],
          index_[1], index_[2]);
    Fiber& self = *running_;
    self.waits = &meeting;
    self.generation = meeting.generation;
    if (++meeting.arrived == threads) {
        meeting.arrived = 0;
        ++meeting.generation;
        // The last thread to arrive continues at once, and would be the first after every barrier. In eager runs it
        // waits, so that warps keep their order: the last warp runs after all that the others do before their next
        // barrier.
        if (!eager_) return;
    }
    self.scheduler = std::move(self.scheduler).resume();
}

void Block::resume(Fiber& fiber) {
    running_ = &fiber;
    fiber.waits = nullptr;
    fiber.self = std::move(fiber.self).resume();
}

Block::Fiber* Block::new_fiber() {
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber* f = fibers_.back().get();
    f->self = boost::context::fiber(std::allocator_arg, stacks_, [this, f](boost::context::fiber&& scheduler) {
        f->scheduler = std::move(scheduler);
        while (true) {
            Gpu gpu(*this, f->thread);
            try {
                (*body_)(gpu);
            } catch (const boost::context::detail::forced_unwind&) {
                throw;
            } catch (...) {
                if (!error_) error_ = std::current_exception();
            }
            f->thread = -1;
            f->scheduler = std::move(f->scheduler).resume();
        }
        return std::move(f->scheduler);
    });
    return f;
}

bool Block::advance(std::vector<Fiber*>& warp) {
    bool progressed = false;
    for (Fiber* f : warp) {
        if (error_ || f->waits->generation == f->generation) continue;
        resume(*f);
        progressed = true;
    }
    std::erase_if(warp, [](const Fiber* f) { return f->thread < 0; });
    return progressed;
}

void Block::run(std::array<int, 3> index, int threads, size_t shared_bytes, const std::function<void(Gpu&)>& body) {
    index_ = index;
    body_ = &body;
    threads_ = threads;
    all_ = {};
    warps_.assign(static_cast<size_t>((threads + gpu::kWarp - 1) / gpu::kWarp), {});
    const size_t shared = (shared_bytes + 15) / 16 * 16;
    check(shared <= kMostShared, "simt: {} bytes of shared memory, at most {}", shared_bytes, kMostShared);
    shared_ = static_cast<char*>(shared_memory_.get()) + kMostShared - shared;
    // A NaN of any size; as an index, out of range.
    std::fill_n(reinterpret_cast<uint16_t*>(shared_), shared / sizeof(uint16_t), uint16_t{0x7fff});

    // Runs alternate between two orders and two schedules: warps advance together, or each runs as far as possible.
    const bool descending = runs_ % 2 != 0;
    eager_ = runs_ / 2 % 2 != 0;
    ++runs_;
    std::vector<Fiber*> idle;
    for (const auto& f : fibers_) idle.push_back(f.get());
    std::vector<std::vector<Fiber*>> waiting(warps_.size());  // by warp
    for (int i = 0; i < threads && !error_; ++i) {
        if (idle.empty()) idle.push_back(new_fiber());
        Fiber* f = idle.back();
        f->thread = descending ? threads - 1 - i : i;
        std::vector<Fiber*>& warp = waiting[static_cast<size_t>(i / gpu::kWarp)];
        resume(*f);
        if (f->thread >= 0) {
            warp.push_back(f);
            idle.pop_back();
        }
        const bool complete = i % gpu::kWarp == gpu::kWarp - 1;
        while (eager_ && complete && all_.generation == 0 && advance(warp)) {
        }
    }
    for (bool progressed = true; progressed && !error_;) {
        progressed = false;
        for (std::vector<Fiber*>& warp : waiting) {
            const uint32_t barrier = all_.generation;
            while (advance(warp)) {
                progressed = true;
                if (!eager_ || all_.generation != barrier) break;
            }
        }
    }
    size_t left = 0;
    for (const std::vector<Fiber*>& warp : waiting) left += warp.size();
    if (left > 0 && !error_) {
        error_ = std::make_exception_ptr(
            Error(Exit::kInternal, fmt::format("simt: {} of {} threads of block ({}, {}, {}) wait for others that left",
                                               left, threads, index[0], index[1], index[2])));
    }
    if (error_) {
        fibers_.clear();  // unwinds the suspended threads
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

}  // namespace trireme::simt
