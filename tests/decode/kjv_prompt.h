#pragma once
/// Test fixture: the small trained model, a prompt, and the other arguments of generate().

#include <memory>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "tests/decode/plain_run.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"

namespace trireme::test {

class KjvPrompt : public testing::Test {
  protected:
    SelfComm comm;
    Engine engine{data_path("models/kjv-target"), kExact, comm};
    std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(data_path("models/kjv-target"));
    GenerateStats stats;
    PlainRequest request{.prompt = tokenizer->encode("In the beginning God created", true),
                         .max_new = 24,
                         .sampling = {.temperature = 0}};
};

}  // namespace trireme::test
