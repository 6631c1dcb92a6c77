#include "launch/run/kv_wire.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

Options with(KvWire wire, DType type, double gbps = 0) {
    Options o;
    o.kv_wire = wire;
    o.cache_type_k = o.cache_type_v = type;
    o.link.gbps = gbps;
    return o;
}

TEST(KvWire, AutoCodesWhereTheLinkIsSlow) {
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, DType::kBF16), 64, "cpu").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, DType::kBF16, 12), 64, "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto, DType::kBF16, 1), 64, "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto, DType::kF16, 1), 64, "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto, DType::kF16), 64, "cuda").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, DType::kF32), 64, "cuda").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, DType::kQ8_0, 1), 64, "cuda").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, DType::kBF16), 62, "cuda").coded);
}

TEST(KvWire, IsWhatTheFlagSays) {
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kRaw, DType::kBF16, 0.1), 64, "cuda").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kCoded, DType::kBF16), 64, "cpu").coded);
    for (const auto& [type, head_dim] :
         {std::pair<DType, int64_t>{DType::kF32, 64}, {DType::kQ8_0, 64}, {DType::kBF16, 62}, {DType::kBF16, 512}}) {
        try {
            choose_kv_wire(with(KvWire::kCoded, type), head_dim, "cpu");
            FAIL() << head_dim;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig);
            EXPECT_THAT(e.what(), HasSubstr("--kv-wire coded: "));
        }
    }
}

TEST(KvTypes, RefuseHeadsThatAreNoWholeBlocks) {
    for (const int64_t head_dim : {32, 64, 96, 128, 256}) require_kv_types(with(KvWire::kAuto, DType::kQ8_0), head_dim);
    for (const int64_t head_dim : {16, 48, 80, 288}) {
        require_kv_types(with(KvWire::kAuto, DType::kF16), head_dim);
        Options keys = with(KvWire::kAuto, DType::kF16);
        keys.cache_type_k = DType::kQ8_0;
        EXPECT_TRUE(kv_lossy(keys));
        try {
            require_kv_types(keys, head_dim);
            FAIL() << head_dim;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig);
            EXPECT_THAT(e.what(), HasSubstr("q8_0: heads of " + std::to_string(head_dim)));
        }
    }
    EXPECT_FALSE(kv_lossy(with(KvWire::kAuto, DType::kF16)));
}

TEST(KvWire, SaysThatBf16IsSmaller) {
    EXPECT_THAT(choose_kv_wire(with(KvWire::kCoded, DType::kF16), 64, "cpu").reason,
                HasSubstr("--kv-cache-dtype bf16"));
    EXPECT_EQ(choose_kv_wire(with(KvWire::kCoded, DType::kBF16), 64, "cpu").reason, "--kv-wire coded");
}

}  // namespace
}  // namespace trireme::test
