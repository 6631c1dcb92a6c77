#include "tests/dist/contract.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "dist/agreement.h"
#include "runtime/cpu/stream.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

// A rank that stopped at a failure would leave the others waiting: cases use EXPECT and continue in step.

/// Every small length, both sides of every power of two, and long ones: short and long messages, short last slices.
std::vector<int64_t> lengths() {
    std::vector<int64_t> n(70);
    std::iota(n.begin(), n.end(), 1);
    for (int64_t p = 128; p <= (1 << 17); p *= 2) n.insert(n.end(), {p - 1, p, p + 1});
    n.push_back(1000000);
    return n;
}

template <class T>
Tensor tensor(std::vector<T>& v) {
    return {v.data(), dtype_of<T>, Shape{std::ssize(v)}};
}

std::vector<float> all_reduced(Comm& comm, Stream& stream, std::vector<float> x) {
    comm.all_reduce(stream, tensor(x));
    stream.synchronize();
    return x;
}

/// The summand of rank r: signs and magnitudes from 2^-30 to 2^30, so that another order of adding gives other bits.
float uneven(int rank, int64_t i) {
    uint64_t h = (static_cast<uint64_t>(i) * 64 + static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u;  // splitmix64
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    const auto sign = static_cast<uint32_t>(h >> 63) << 31, fraction = static_cast<uint32_t>(h) >> 9;
    return std::bit_cast<float>(sign | (static_cast<uint32_t>(97 + (h >> 40) % 61) << 23) | fraction);
}

void adds_every_rank_once(Comm& comm) {
    CpuStream stream("collectives", 1);
    const float all = static_cast<float>((1 << comm.size()) - 1);
    for (const int64_t n : lengths()) {
        std::vector<float> x(static_cast<size_t>(n)), want(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<float>(1 << comm.rank()) + static_cast<float>(i % 1021);
            want[i] = all + static_cast<float>(comm.size()) * static_cast<float>(i % 1021);
        }
        const auto got = all_reduced(comm, stream, x);
        EXPECT_TRUE(same_bits<float>(got, want)) << n << " elements";
    }
}

void adds_in_rank_order(Comm& comm) {
    CpuStream stream("collectives", 1);
    const auto sum = [&](int first, int step, int64_t i) {
        float s = uneven(first, i);
        for (int r = 1; r < comm.size(); ++r) s += uneven(first + r * step, i);
        return s;
    };
    for (const int64_t n : lengths()) {
        std::vector<float> x(static_cast<size_t>(n)), want(x.size());
        for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = uneven(comm.rank(), i);
        for (int64_t i = 0; i < n; ++i) want[static_cast<size_t>(i)] = sum(0, 1, i);
        const auto got = all_reduced(comm, stream, x);
        EXPECT_TRUE(same_bits<float>(got, want)) << n << " elements";
    }
    int order_matters = 0;
    for (int64_t i = 0; i < 1000; ++i) order_matters += sum(0, 1, i) != sum(comm.size() - 1, -1, i);
    EXPECT_TRUE(order_matters > 50 || comm.size() <= 2) << order_matters;
}

void cancels_as_written(Comm& comm) {
    CpuStream stream("collectives", 1);
    constexpr float kGiven[] = {1e8f, 1.0f, -1e8f, 1.0f, 3e7f, -3e7f, 0.25f, -1.0f, 7.0f};
    constexpr float kSums[] = {1e8f, 1e8f, 0.0f, 1.0f, 3e7f, 0.0f, 0.25f, -0.75f, 6.25f};
    ASSERT_LE(comm.size(), 9);
    for (const int64_t n : {1, 100, 100000}) {
        const std::vector<float> x(static_cast<size_t>(n), kGiven[comm.rank()]);
        const std::vector<float> want(x.size(), kSums[comm.size() - 1]);
        const auto got = all_reduced(comm, stream, x);
        EXPECT_TRUE(same_bits<float>(got, want)) << n << " elements";
    }
}

void repeats_without_waiting(Comm& comm) {
    CpuStream stream("collectives", 1);
    constexpr int kCalls = 300;
    std::vector<std::vector<float>> x;
    for (int c = 0; c < kCalls; ++c) x.emplace_back(static_cast<size_t>(1 + c * 37 % 9001), float(c + comm.rank()));

    for (auto& v : x) comm.all_reduce(stream, tensor(v));
    stream.synchronize();

    const int ranks = comm.size(), of_ranks = ranks * (ranks - 1) / 2;
    for (int c = 0; c < kCalls; ++c) {
        const auto& v = x[static_cast<size_t>(c)];
        const std::vector<float> want(v.size(), static_cast<float>(ranks * c + of_ranks));
        EXPECT_TRUE(same_bits<float>(v, want)) << "call " << c;
    }
}

void takes_streams_by_turns(Comm& comm) {
    constexpr int kCalls = 200;
    constexpr size_t kElements = 3000;
    CpuStream even("even", 1), odd("odd", 1);
    std::vector<std::vector<float>> x;
    for (int c = 0; c < kCalls; ++c) x.emplace_back(kElements, static_cast<float>(c + comm.rank()));

    for (int c = 0; c < kCalls; ++c) {
        CpuStream& stream = c % 2 == 0 ? even : odd;
        comm.turn(stream);
        comm.all_reduce(stream, tensor(x[static_cast<size_t>(c)]));
    }
    even.synchronize();
    odd.synchronize();
    comm.leave(odd);

    const int ranks = comm.size(), of_ranks = ranks * (ranks - 1) / 2;
    for (int c = 0; c < kCalls; ++c) {
        const std::vector<float> want(kElements, static_cast<float>(ranks * c + of_ranks));
        EXPECT_TRUE(same_bits<float>(x[static_cast<size_t>(c)], want)) << "call " << c;
    }
}

void leaves_neighbours_alone(Comm& comm) {
    CpuStream stream("collectives", 1);
    constexpr int64_t kRows = 5, kCols = 3333;
    std::vector<float> x(static_cast<size_t>((kRows + 2) * kCols), -7.0f);
    const Tensor all(x.data(), DType::kF32, Shape{kRows + 2, kCols});
    std::fill(x.begin() + kCols, x.begin() + (kRows + 1) * kCols, 1.0f);

    comm.all_reduce(stream, all.slice_rows(1, kRows));
    stream.synchronize();

    std::vector<float> want(x.size(), -7.0f);
    std::fill(want.begin() + kCols, want.begin() + (kRows + 1) * kCols, static_cast<float>(comm.size()));
    EXPECT_TRUE(same_bits<float>(x, want));
}

template <class T>
void gather_type(Comm& comm, T (*value)(int rank, size_t i)) {
    CpuStream stream("collectives", 1);
    const auto ranks = static_cast<size_t>(comm.size()), me = static_cast<size_t>(comm.rank());
    for (const size_t n : {1, 2, 31, 1000, 70001}) {
        std::vector<T> part(n), out(n * ranks), want(out), in_place(out);
        for (size_t i = 0; i < n; ++i) in_place[me * n + i] = part[i] = value(comm.rank(), i);
        for (size_t i = 0; i < want.size(); ++i) want[i] = value(static_cast<int>(i / n), i % n);
        const Shape shape{comm.size(), static_cast<int64_t>(n)};
        const Tensor place(in_place.data(), dtype_of<T>, shape);

        comm.all_gather(stream, Tensor(out.data(), dtype_of<T>, shape), tensor(part));
        comm.all_gather(stream, place, Tensor(in_place.data() + me * n, dtype_of<T>, Shape{std::ssize(part)}));
        stream.synchronize();

        EXPECT_TRUE(same_bits<T>(out, want)) << n << " elements of " << name_of(dtype_of<T>);
        EXPECT_TRUE(same_bits<T>(in_place, want)) << n << " elements of " << name_of(dtype_of<T>) << ", in place";
    }
}

void gathers_parts_in_rank_order(Comm& comm) {
    gather_type<float>(comm, [](int r, size_t i) { return static_cast<float>(r) + static_cast<float>(i) * 16.0f; });
    gather_type<int32_t>(comm, [](int r, size_t i) { return static_cast<int32_t>(i * 16) + r; });
    gather_type<int64_t>(comm, [](int r, size_t i) { return static_cast<int64_t>(i << 32) + r; });
    gather_type<uint8_t>(comm, [](int r, size_t i) { return static_cast<uint8_t>(r + 11 * static_cast<int>(i)); });
}

void gathers_matrices(Comm& comm) {
    CpuStream stream("collectives", 1);
    std::vector<float> part(6, static_cast<float>(comm.rank())), out(6 * static_cast<size_t>(comm.size()));

    comm.all_gather(stream, Tensor(out.data(), DType::kF32, Shape{comm.size(), 2, 3}),
                    Tensor(part.data(), DType::kF32, Shape{2, 3}));
    stream.synchronize();

    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<float>(i / 6));
}

void does_nothing_for_nothing(Comm& comm) {
    CpuStream stream("collectives", 1);

    comm.all_reduce(stream, Tensor(nullptr, DType::kF32, Shape{0, 64}));
    comm.all_gather(stream, Tensor(nullptr, DType::kF32, Shape{comm.size(), 0}),
                    Tensor(nullptr, DType::kF32, Shape{0}));
    stream.synchronize();
}

void refuses_what_does_not_fit(Comm& comm) {
    CpuStream stream("collectives", 1);
    std::vector<float> x(64);
    const Tensor matrix(x.data(), DType::kF32, Shape{4, 8});

    EXPECT_THROW(comm.all_reduce(stream, Tensor(x.data(), DType::kF16, Shape{8})), Error);
    EXPECT_THROW(comm.all_reduce(stream, matrix.slice_cols(0, 4)), Error);
    EXPECT_THROW(comm.all_gather(stream, Tensor(x.data(), DType::kF32, Shape{comm.size() + 1, 2}),
                                 Tensor(x.data(), DType::kF32, Shape{2})),
                 Error);
    EXPECT_THROW(comm.all_gather(stream, Tensor(x.data(), DType::kF32, Shape{comm.size(), 2}),
                                 Tensor(x.data(), DType::kF32, Shape{1})),
                 Error);
    EXPECT_THROW(comm.all_gather(stream, Tensor(x.data(), DType::kF32, Shape{comm.size(), 2}),
                                 Tensor(x.data(), DType::kI32, Shape{2})),
                 Error);
    std::string none;
    EXPECT_THROW(comm.broadcast(none, comm.size()), Error);
    EXPECT_THROW(comm.broadcast(none, -1), Error);
}

std::string bytes_of(int rank, size_t n) {
    std::string s(n, '\0');
    for (size_t i = 0; i < n; ++i) s[i] = static_cast<char>(i * 7 + static_cast<size_t>(rank) * 31);
    return s;
}

void broadcasts_from_any_rank(Comm& comm) {
    for (int root = 0; root < comm.size(); ++root) {
        for (const size_t n : {0, 1, 5, 4096, 1000003}) {
            std::string bytes = comm.rank() == root ? bytes_of(root, n) : bytes_of(99, 3 * n / 2);
            comm.broadcast(bytes, root);
            EXPECT_EQ(bytes == bytes_of(root, n), true) << n << " bytes from rank " << root;
        }
    }
}

void gathers_bytes_of_any_size(Comm& comm) {
    for (const int factor : {0, 1, 1000, 100000}) {
        const auto size_of_rank = [&](int r) { return static_cast<size_t>(factor * ((r + 1) % comm.size())); };
        const auto all = comm.gather_bytes(bytes_of(comm.rank(), size_of_rank(comm.rank())));
        EXPECT_EQ(std::ssize(all), comm.size());
        for (int r = 0; r < comm.size(); ++r) {
            EXPECT_EQ(all[static_cast<size_t>(r)] == bytes_of(r, size_of_rank(r)), true) << "rank " << r;
        }
    }
}

void agrees_on_the_most_severe(Comm& comm) {
    comm.barrier();
    EXPECT_EQ(comm.agree(Exit::kOk), Exit::kOk);
    for (int r = 0; r < comm.size(); ++r) {
        EXPECT_EQ(comm.agree(comm.rank() == r ? Exit::kConfig : Exit::kOk), Exit::kConfig);
        EXPECT_EQ(comm.agree(comm.rank() == r ? Exit::kData : Exit::kUsage), Exit::kData);
    }
}

void control_passes_device_calls(Comm& comm) {
    CpuStream stream("collectives", 1);
    std::vector<float> x(20000, 1.0f);
    for (int i = 0; i < 30; ++i) {
        std::fill(x.begin(), x.end(), 1.0f);
        stream.enqueue("late", 0, [late = (comm.rank() + i) % comm.size()] {
            std::this_thread::sleep_for(std::chrono::microseconds(300 * late));
        });
        comm.all_reduce(stream, tensor(x));
        const auto all = comm.gather_bytes(std::to_string(i));  // the device call may be in flight, or not have begun
        EXPECT_EQ(all.back(), std::to_string(i));
        stream.synchronize();
        EXPECT_EQ(std::count(x.begin(), x.end(), static_cast<float>(comm.size())), std::ssize(x));
    }
}

void ranks_in_different_calls_find_out(Comm& comm) {
    if (comm.size() == 1) return;
    const int last = comm.size() - 1;
    const std::string begin = "ranks are in different calls: rank 0 in barrier (control call ";
    try {
        if (comm.rank() == last) {
            comm.agree(Exit::kOk);
        } else {
            comm.barrier();
        }
        ADD_FAILURE() << "nothing was thrown";
    } catch (const AgreedError& e) {
        EXPECT_EQ(e.code(), Exit::kInternal);
        EXPECT_EQ(std::string(e.what()).substr(0, begin.size()), begin);
        EXPECT_NE(std::string(e.what()).find(fmt::format("rank {} in agree", last)), std::string::npos) << e.what();
    }
    EXPECT_EQ(comm.agree(Exit::kIo), Exit::kIo) << "the ranks are in step again";
}

void settings_must_be_the_same(Comm& comm) {
    require_agreement(comm, {{"context", "32768"}, {"seed", "7"}});
    require_agreement(comm, {});
    if (comm.size() == 1) return;
    const int odd = comm.size() - 1;
    try {
        require_agreement(comm, {{"context", comm.rank() == odd ? "8192" : "32768"}, {"seed", "7"}});
        ADD_FAILURE() << "nothing was thrown";
    } catch (const AgreedError& e) {
        EXPECT_EQ(e.code(), Exit::kConfig);
        EXPECT_EQ(e.what(), fmt::format("rank {} differs: context=8192 (others 32768)", odd));
    }
}

constexpr ContractCase kCases[] = {
    {"AllReduceAddsEveryRankOnce", adds_every_rank_once},
    {"AllReduceAddsInRankOrder", adds_in_rank_order},
    {"AllReduceCancelsAsWritten", cancels_as_written},
    {"AllReduceRepeatsWithoutWaiting", repeats_without_waiting},
    {"AllReduceTakesStreamsByTurns", takes_streams_by_turns},
    {"AllReduceLeavesNeighboursAlone", leaves_neighbours_alone},
    {"AllGatherIsInRankOrder", gathers_parts_in_rank_order},
    {"AllGatherTakesMatrices", gathers_matrices},
    {"EmptyTensorsAreNothingToDo", does_nothing_for_nothing},
    {"RefusesWhatDoesNotFit", refuses_what_does_not_fit},
    {"BroadcastsFromAnyRank", broadcasts_from_any_rank},
    {"GathersBytesOfAnySize", gathers_bytes_of_any_size},
    {"AgreesOnTheMostSevere", agrees_on_the_most_severe},
    {"ControlCallsPassDeviceCalls", control_passes_device_calls},
    {"RanksInDifferentCallsFindOut", ranks_in_different_calls_find_out},
    {"SettingsMustBeTheSame", settings_must_be_the_same},
};

}  // namespace

std::span<const ContractCase> contract() {
    return kCases;
}

}  // namespace trireme::test
