#pragma once
/// run_block(): runs one block of a kernel body on the host.

#include <array>

#include <gtest/gtest.h>

#include "tests/simt/block.h"

namespace trireme::simt {

/// Runs block `index`; a fault fails the test. Each run of a body has another order of threads than the one before.
template <class Body>
void run_block(std::array<int, 3> index, const typename Body::Args& args) {
    static Block block;
    block.run(index, Body::kThreads, Body::kSharedBytes, [&](Gpu& gpu) { Body::run(gpu, args); });
    EXPECT_EQ(block.fault.kind, gpu::Fault::kNone);
}

}  // namespace trireme::simt
