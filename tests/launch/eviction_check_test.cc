// The check of eviction parameters: what just fits is accepted; a contradiction is refused, and names the flag.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "launch/run/eviction.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

TEST(EvictionCheck, AcceptsWhatJustFits) {
    for (const EvictionShape& s : {EvictionShape{.policy = KvPolicy::kH2o, .budget = 2, .heavy = 1, .sinks = 1},
                                   {.policy = KvPolicy::kH2o, .budget = 8, .heavy = 7, .sinks = 7},
                                   {.policy = KvPolicy::kStreaming, .budget = 8, .sinks = 7},
                                   {.policy = KvPolicy::kTova, .budget = 8, .sinks = 7},
                                   {.policy = KvPolicy::kKeyNorm, .budget = 9, .heavy = 4, .sinks = 4},
                                   {.policy = KvPolicy::kSnapKv, .budget = 8, .sinks = 1, .observe = 7, .pool = 1},
                                   {.policy = KvPolicy::kPyramidKv, .budget = 40, .sinks = 2, .observe = 20}}) {
        EXPECT_NO_THROW(check_eviction(s, 4)) << name_of(s.policy);
        EvictionShape more = s;
        ++more.sinks;
        EXPECT_THROW(check_eviction(more, 4), Error) << name_of(s.policy);
    }
    EXPECT_NO_THROW(check_eviction({}, 4));
}

TEST(EvictionCheck, NamesTheFlagThatContradicts) {
    for (const auto& [change, words] : std::vector<std::pair<EvictionShape, std::string>>{
             {{.policy = KvPolicy::kH2o, .budget = 8, .heavy = 8}, "--kv-heavy 8"},
             {{.policy = KvPolicy::kH2o, .budget = 8, .heavy = 2, .sinks = 3}, "--kv-sinks 3"},
             {{.policy = KvPolicy::kSnapKv, .budget = 64, .observe = 64}, "--kv-observe 64"},
             {{.policy = KvPolicy::kSnapKv, .budget = 64, .observe = 8, .pool = 4}, "--kv-pool 4"},
             {{.policy = KvPolicy::kPyramidKv, .budget = 30, .sinks = 2, .observe = 20}, "--kv-sinks 2"},
             {{.policy = KvPolicy::kStreaming, .budget = 1}, "--kv-window 1"}}) {
        try {
            check_eviction(change, 3);
            ADD_FAILURE() << words << " is not refused";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig);
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
        }
    }
}

}  // namespace
}  // namespace trireme::test
