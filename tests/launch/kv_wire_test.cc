#include "launch/run/kv_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

KvLayout layout(DType type, int64_t head_dim = 64) {
    return {.kv_heads = 1, .head_dim = head_dim, .k_type = type, .v_type = type};
}
Options with(KvWire wire, double gbps = 0) {
    Options o;
    o.kv_wire = wire;
    o.link.gbps = gbps;
    return o;
}

TEST(KvWire, AutoCodesWhereTheLinkIsSlow) {
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto), layout(DType::kBF16), "cpu").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto, 12), layout(DType::kBF16), "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto, 1), layout(DType::kBF16), "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto, 1), layout(DType::kF16), "cpu").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kAuto), layout(DType::kF16), "cuda").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto), layout(DType::kF32), "cuda").coded);
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kAuto), layout(DType::kBF16, 62), "cuda").coded);
}

TEST(KvWire, IsWhatTheFlagSays) {
    EXPECT_FALSE(choose_kv_wire(with(KvWire::kRaw, 0.1), layout(DType::kBF16), "cuda").coded);
    EXPECT_TRUE(choose_kv_wire(with(KvWire::kCoded), layout(DType::kBF16), "cpu").coded);
    for (const KvLayout& l : {layout(DType::kF32), layout(DType::kBF16, 62), layout(DType::kBF16, 512)}) {
        try {
            choose_kv_wire(with(KvWire::kCoded), l, "cpu");
            FAIL() << l.head_dim;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig);
            EXPECT_THAT(e.what(), HasSubstr("--kv-wire coded: "));
        }
    }
}

TEST(KvWire, SaysThatBf16IsSmaller) {
    EXPECT_THAT(choose_kv_wire(with(KvWire::kCoded), layout(DType::kF16), "cpu").reason,
                HasSubstr("--kv-cache-dtype bf16"));
    EXPECT_EQ(choose_kv_wire(with(KvWire::kCoded), layout(DType::kBF16), "cpu").reason, "--kv-wire coded");
}

}  // namespace
}  // namespace trireme::test
