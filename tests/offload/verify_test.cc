// --kv-verify: a tile that arrives with other bytes stops the run, and the error names it.

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/stream/raw_bytes.h"
#include "offload/stream/transport.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

const StreamShape kShape{.layout = {.kv_heads = 1, .head_dim = 8, .k_type = DType::kF16, .v_type = DType::kF16},
                         .layers = 2,
                         .sequences = 1,
                         .tiles = 4};

struct Way {
    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> compute = device->make_stream("compute");
    Transport transport{*device, *compute, kShape, /*owners=*/{OwnerIndex(2), OwnerIndex(5)}, {}, /*verify=*/true};
    Buffer<Space::kDevice> from{*device, 2 * kShape.tile_bytes()}, to{*device, 2 * kShape.tile_bytes()};
    Buffer<Space::kHost> bytes{*device, 2 * kShape.tile_bytes()};

    char* source() const { return static_cast<char*>(from.data()); }
    void write(char value) {
        std::memset(bytes.data(), value, bytes.bytes());
        compute->copy(bytes_on_device(source(), bytes.bytes()), bytes_on_host(bytes.data(), bytes.bytes()));
        compute->synchronize();
    }
    /// Copies tiles 1 and 2 of layer 1 to the host and back. `spoiled`: a byte changes between their digests and the
    /// copy.
    void round_trip(bool spoiled) {
        write(5);
        transport.seal(source(), StreamedIndex(1), 0, {1, 3});
        compute->synchronize();
        if (spoiled) source()[kShape.tile_bytes() + 17] ^= 1;
        const Transport::Written span{source(), StreamedIndex(1), {1, 3}};
        transport.store({&span, 1}, 0, transport.order().record(Lane::kCompute));
        transport.order().wait(Lane::kCompute,
                               transport.fetch(static_cast<char*>(to.data()), StreamedIndex(1), 0, {1, 3}));
        compute->synchronize();
    }
};

TEST(Verify, WhatArrivesAsItLeftIsFine) {
    Way way;
    way.round_trip(false);
    EXPECT_EQ(std::memcmp(way.from.data(), way.to.data(), way.to.bytes()), 0);
}

TEST(Verify, ATileThatChangedOnTheWayIsNamed) {
    Way way;
    try {
        way.round_trip(true);
        FAIL() << "not noticed";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kInternal);
        EXPECT_THAT(std::string(e.what()), testing::HasSubstr("tile 2 of owner layer 5,"));
    }
}

}  // namespace
}  // namespace trireme::test
