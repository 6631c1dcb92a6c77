#pragma once
/// A GPU block on the host: its threads are fibers of one operating system thread, which run until they meet the
/// others. Half of the blocks run their threads in descending order, so that a missing barrier is noticed in one of the
/// two orders. Half of the blocks run each warp as far as possible before the next one. Shared memory begins as NaN and
/// ends at an inaccessible page. An asynchronous copy makes its target NaN at once, and its bytes arrive when its
/// thread waits for them, not before. The run fails if threads wait for one that has left, or meet in different
/// operations.

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

#include "kernels/cuda/fault.h"
#include "tests/support/fence.h"

namespace trireme::simt {

class Block;

/// One thread's view, as runtime/cuda/gpu.h describes it.
class Gpu {
  public:
    Gpu(Block& block, int thread) : block_(block), thread_(thread) {}

    int thread() const { return thread_; }
    int block_x() const;
    int block_y() const;
    int block_z() const;
    void* shared() const;
    void sync();
    void fault(gpu::Fault kind, int64_t x, int64_t y);
    uint32_t fetch_add(uint32_t* p, uint32_t x) {
        const uint32_t before = *p;
        *p += x;
        return before;
    }
    static float power_of_2(float x) {
        const float power = std::exp2(x);
        return power < std::numeric_limits<float>::min() ? 0.0f : power;
    }
    template <class T>
    T shuffle_xor(T x, int mask) {
        std::array<std::byte, kLetter> letter{};
        std::memcpy(letter.data(), &x, sizeof x);
        std::memcpy(&x, exchange(letter, mask)[static_cast<size_t>(lane() ^ mask)].data(), sizeof x);
        return x;
    }
    /// PTX ISA, matrix fragments for mma.m16n8k16 with 16-bit types. The lane of group g and quad t holds: of a, rows g
    /// and g + 8, columns 2t, 2t + 1 and those plus 8; of b, the same k and column g; of d, rows g and g + 8, columns
    /// 2t and 2t + 1.
    template <class T>
    void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        std::array<std::byte, kLetter> letter{};
        std::memcpy(letter.data(), a, sizeof a);
        std::memcpy(letter.data() + sizeof a, b, sizeof b);
        const Letters& all = exchange(letter, kMma);
        const auto element = [&](int group, int k, size_t part) {  // the two of a register are adjacent
            T x;
            std::memcpy(&x,
                        all[static_cast<size_t>(group * 4 + k % 8 / 2)].data() + part + static_cast<size_t>(k % 2 * 2),
                        sizeof x);
            return static_cast<float>(x);
        };
        float left[2][16];
        for (int k = 0; k < 16; ++k) {
            for (int low = 0; low < 2; ++low) {
                left[low][k] = element(lane() / 4, k, static_cast<size_t>(low + k / 8 * 2) * 4);
            }
        }
        for (int column = 0; column < 2; ++column) {
            for (int k = 0; k < 16; ++k) {
                const float right = element(lane() % 4 * 2 + column, k, sizeof a + static_cast<size_t>(k / 8) * 4);
                for (int low = 0; low < 2; ++low) {
                    d[low * 2 + column] += left[low][k] * right;  // exact products: 16 bits of mantissa and less
                }
            }
        }
    }
    template <bool kTransposed>
    gpu::Bits16 load_matrices(const uint16_t* row) {
        check_aligned(row);
        std::array<std::byte, kLetter> letter{};
        std::memcpy(letter.data(), &row, sizeof row);
        const Letters& all = exchange(letter, kMatrices + kTransposed);
        gpu::Bits16 bits;
        for (int matrix = 0; matrix < 4; ++matrix) {
            uint32_t word = 0;
            for (int i = 0; i < 2; ++i) {
                const int pair = lane() % 4 * 2 + i, single = lane() / 4;
                const int from = kTransposed ? pair : single, column = kTransposed ? single : pair;
                const uint16_t* p = nullptr;
                std::memcpy(&p, all[static_cast<size_t>(matrix * 8 + from)].data(), sizeof p);
                word |= static_cast<uint32_t>(p[column]) << (16 * i);
            }
            bits.word[matrix] = word;
        }
        return bits;
    }
    void copy_async(void* to, const void* from, bool real);
    void end_copies() { ended_.push_back(copies_.size()); }
    template <int kLeft>
    void wait_copies() {
        complete(kLeft);
    }
    // Other ranks' blocks run on other threads of the host.
    static void publish(uint32_t* p, uint32_t x) { std::atomic_ref(*p).store(x, std::memory_order_release); }
    static void await(const uint32_t* p, uint32_t x, const uint32_t* stop) {
        const auto word = [](const uint32_t* at) {
            return std::atomic_ref(*const_cast<uint32_t*>(at)).load(std::memory_order_acquire);
        };
        while (static_cast<int32_t>(word(p) - x) < 0 && word(stop) == 0) std::this_thread::yield();
    }
    template <class T>
    gpu::Bits16 load16(const T* p) const {
        check_aligned(p);
        gpu::Bits16 bits;
        std::memcpy(&bits, p, sizeof bits);
        return bits;
    }
    template <class T>
    gpu::Bits16 stream16(const T* p) const {
        return load16(p);
    }

  private:
    static constexpr size_t kLetter = 24;
    static constexpr int kMma = 1 << 8, kMatrices = 1 << 9;
    using Letters = std::array<std::array<std::byte, kLetter>, gpu::kWarp>;
    friend class Block;

    struct Copy {
        void* to;
        const void* from;
        bool real;
    };

    /// Errors: Exit::kInternal if a GPU would end the run.
    static void check_aligned(const void* p);
    /// Performs the copies of all ended groups but the last `left`, the newest first.
    void complete(size_t left);
    int lane() const { return thread_ % gpu::kWarp; }
    /// Returns the letters of all lanes of the warp; `operation` must be the same in all of them.
    const Letters& exchange(const std::array<std::byte, kLetter>& letter, int operation);

    Block& block_;
    int thread_;
    std::vector<Copy> copies_;   // not performed yet
    std::vector<size_t> ended_;  // number of copies up to the end of each group
};

class Block {
  public:
    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    /// Runs `body` as every thread of block (x, y, z). Errors: Exit::kInternal when threads never meet.
    void run(std::array<int, 3> index, int threads, size_t shared_bytes, const std::function<void(Gpu&)>& body);

    gpu::FaultRecord fault;

  private:
    friend class Gpu;
    /// A point at which threads wait for each other.
    struct Meeting {
        int arrived = 0, operation = 0;
        uint32_t generation = 0;
    };
    struct Warp {
        Meeting meeting;
        std::array<Gpu::Letters, 2> letters;  // of this exchange and of the one before
    };
    /// Runs one thread after the other; suspended while its thread waits.
    struct Fiber {
        boost::context::fiber self, scheduler;
        int thread = -1;  // -1: idle
        const Meeting* waits = nullptr;
        uint32_t generation = 0;
    };

    Fiber* new_fiber();
    void resume(Fiber& fiber);
    /// Resumes the threads that need not wait any longer, and removes those that have ended. Returns false if there
    /// were none.
    bool advance(std::vector<Fiber*>& warp);
    void meet(Meeting& meeting, int threads, int operation);

    std::array<int, 3> index_{};
    const std::function<void(Gpu&)>* body_ = nullptr;
    int threads_ = 0;
    unsigned runs_ = 0;
    bool eager_ = false;  // in this run, a warp runs as far as possible before the next one
    struct Fenced {
        void operator()(void* p) const { test::fenced_free(p, kMostShared); }
    };
    static constexpr size_t kMostShared = size_t{256} << 10;
    std::unique_ptr<void, Fenced> shared_memory_{test::fenced_allocate(kMostShared)};
    void* shared_ = nullptr;  // the current block's: the end of shared_memory_
    std::vector<Warp> warps_;
    Meeting all_;
    boost::context::pooled_fixedsize_stack stacks_{size_t{64} << 10};
    std::vector<std::unique_ptr<Fiber>> fibers_;
    Fiber* running_ = nullptr;
    std::exception_ptr error_;
};

}  // namespace trireme::simt
