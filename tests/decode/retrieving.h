#pragma once
/// A target and a retrieving level over it, for tests.

#include <memory>
#include <vector>

#include "offload/policies/set_view.h"
#include "tests/support/engine.h"

namespace trireme::test {

/// A target and, over the same weights, a level that sees what a RetrievalSet holds.
struct Retrieving {
    Retrieving(Engine& engine, const LevelOptions& target_options, const RetrievalShape& shape)
        : target(engine.device(), engine.comm(), engine.weights(), target_options),
          set(engine.device(), target.stream(), dynamic_cast<FullView&>(target.view()), shape),
          middle(engine.device(), engine.comm(), engine.weights(), with_view(target_options)) {}

    LevelOptions with_view(LevelOptions options) {
        options.view = [this](Device& device, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
            return std::make_unique<SetView>(device, compute, shape, set);
        };
        return options;
    }

    Level target;
    RetrievalSet set;
    Level middle;
};

}  // namespace trireme::test
