/// The contract, run on one rank and on ranks that are threads.
#include "tests/dist/contract.h"

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "dist/staged_comm.h"
#include "runtime/cpu/device.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {

void PrintTo(const ContractCase& c, std::ostream* out) {
    *out << c.name;
}

namespace {

class SelfContract : public testing::TestWithParam<ContractCase> {};

TEST_P(SelfContract, Holds) {
    SelfComm comm;
    GetParam().run(comm);
}

INSTANTIATE_TEST_SUITE_P(, SelfContract, testing::ValuesIn(contract().begin(), contract().end()),
                         [](const auto& p) { return std::string(p.param.name); });

/// Without 9 ranks under a sanitizer: nine threads share a few cores, and would take a minute.
std::vector<int> rank_counts() {
    return kSanitized ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{1, 2, 3, 4, 9};
}

class ThreadContract : public testing::TestWithParam<std::tuple<ContractCase, int>> {};

TEST_P(ThreadContract, Holds) {
    run_ranks(std::get<1>(GetParam()), std::get<0>(GetParam()).run);
}

INSTANTIATE_TEST_SUITE_P(, ThreadContract,
                         testing::Combine(testing::ValuesIn(contract().begin(), contract().end()),
                                          testing::ValuesIn(rank_counts())),
                         [](const auto& p) {
                             return fmt::format("{}On{}", std::get<0>(p.param).name, std::get<1>(p.param));
                         });

class StagedContract : public testing::TestWithParam<std::tuple<ContractCase, int>> {};

TEST_P(StagedContract, Holds) {
    run_ranks(std::get<1>(GetParam()), [](Comm& inner) {
        CpuDevice device(1);
        StagedComm comm(inner, device);
        std::get<0>(GetParam()).run(comm);
    });
}

INSTANTIATE_TEST_SUITE_P(
    , StagedContract, testing::Combine(testing::ValuesIn(contract().begin(), contract().end()), testing::Values(2, 3)),
    [](const auto& p) { return fmt::format("{}On{}", std::get<0>(p.param).name, std::get<1>(p.param)); });

}  // namespace
}  // namespace trireme::test
