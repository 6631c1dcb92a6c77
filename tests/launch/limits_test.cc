// Limits that the system sets for a process (ulimit): reported memory is what the process can allocate.

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"
#include "tests/launch/wide_model.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

ProcessResult limited(const std::string& limit, const Words& words) {
    std::string line = "ulimit " + limit + " && exec '" TRIREME_PROGRAM "'";
    for (const std::string& word : words) line += " '" + word + "'";
    return run_process({"bash", "-c", line});
}

/// The first number after `before`.
double number(const std::string& text, const std::string& before) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(before + "([0-9.]+)")) ? std::stod(found[1]) : -1;
}

// KV of 65,536 tokens takes 2 GiB. Addresses and private data are limited to 500 MB.
TEST(Limits, OfAddressesAreCountedWhereMemoryIs) {
    const WideModel model;
    const auto generate = [&](const std::string& context) {
        return Words{"generate", "-m", model.path(), "--prompt-ids", model.ids(5), "-t",
                     "2",        "-c", context,      "--print",      "ids"};
    };
    for (const std::string limit : {"-v 500000", "-d 500000"}) {
        const ProcessResult run = limited(limit, generate("65536"));
        EXPECT_EQ(run.status, 71);
        ASSERT_THAT(lines_of(run.err), SizeIs(1)) << run.err;
        EXPECT_THAT(run.err, HasSubstr("(ulimit -v or -d)"));
        const double wanted = number(run.err, "memory: "), there = number(run.err, "on chip, "),
                     lacking = number(run.err, "-d\\), "), context = number(run.err, "too little; ");
        EXPECT_LT(there, 500000 / 1024.0);
        EXPECT_NEAR(wanted - there, lacking, 0.11);

        // The suggested context length fits, and so does half of it. It uses at least 75 % of the memory.
        EXPECT_GT(context * 2 * 16 / 1024, 0.75 * there);
        for (const double tokens : {context, context / 2}) {
            const ProcessResult fits = limited(limit, generate(std::to_string(static_cast<int64_t>(tokens))));
            EXPECT_EQ(fits.status, 0) << tokens << fits.err;
        }

        // The plan for this machine reports the same memory.
        const ProcessResult plan = limited(limit, {"plan", "-m", model.path(), "-c", "65536", "-t", "2"});
        EXPECT_EQ(plan.status, 71);
        EXPECT_NEAR(number(plan.err, "on chip, "), there, 0.1 * there);
    }
}

}  // namespace
}  // namespace trireme::test
