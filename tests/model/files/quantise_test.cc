// Blocks compared with llama.cpp's: the same bits where the rule is fixed, no larger error where scales are searched.

#include "model/files/quantise.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/files/byte_source.h"
#include "model/files/dequantise.h"
#include "model/files/safetensors.h"
#include "runtime/error.h"
#include "tests/support/stored_types.h"

namespace trireme::test {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(TRIREME_TEST_DATA) / "gguf";
constexpr const char* kKinds[] = {"normal",   "laplace",  "heavy",    "sparse", "zeros",
                                  "positive", "negative", "constant", "bf16",   "small"};

/// Values, and llama.cpp's blocks of them (tests/reference/quantised_files.py).
class Made {
  public:
    std::vector<std::byte> bytes(const std::string& name) const {
        const auto it = header_.find(name);
        check(it != header_.end(), "no {} in the golden", name);
        std::vector<std::byte> bytes(it->second.bytes);
        source_->read(it->second.offset, bytes);
        return bytes;
    }
    std::vector<float> values(const char* kind) const {
        const std::vector<std::byte> raw = bytes(fmt::format("{}.values", kind));
        std::vector<float> x(raw.size() / sizeof(float));
        std::memcpy(x.data(), raw.data(), raw.size());
        return x;
    }

  private:
    std::unique_ptr<ByteSource> source_ = open_file(kFolder / "quantised.safetensors");
    SafetensorsHeader header_ = read_safetensors_header(*source_);
};

std::vector<std::byte> encoded(StoredType type, const std::vector<float>& x) {
    const BlockLayout layout = layout_of(type);
    std::vector<std::byte> blocks(x.size() / static_cast<size_t>(layout.elements) * layout.bytes);
    EXPECT_TRUE(quantise(type, x.data(), static_cast<int64_t>(x.size()), blocks.data()));
    return blocks;
}

std::vector<float> decoded(StoredType type, const std::vector<std::byte>& blocks, size_t n) {
    std::vector<float> x(n);
    dequantise(type, blocks.data(), static_cast<int64_t>(n), x.data());
    return x;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += off * off;
    }
    return sum;
}

TEST(Quantise, HasTheBitsOfLlamaCppWhereTheRuleIsFixed) {
    const Made made;
    for (const char* kind : kKinds) {
        const std::vector<float> x = made.values(kind);
        for (const StoredType type :
             {StoredType::kQ4_0, StoredType::kQ4_1, StoredType::kQ5_0, StoredType::kQ5_1, StoredType::kQ8_0}) {
            EXPECT_EQ(encoded(type, x), made.bytes(fmt::format("{}.{}", kind, name_of(type))))
                << kind << " " << name_of(type);
        }
    }
}

// Two kinds are left to chance: scales of "small" are subnormal f16 numbers, and blocks of "constant" have no error but
// that of f16. Their bounds are 1 % more, and half a unit in the last place of f16 for each value.
TEST(Quantise, HasNoLargerErrorThanLlamaCppWhereScalesAreSearched) {
    const Made made;
    std::ifstream file(kFolder / "quantised.json");
    const auto errors = nlohmann::json::parse(file)["squared_errors"];
    for (const char* kind : kKinds) {
        const std::vector<float> x = made.values(kind);
        for (const StoredType type : {StoredType::kIQ4_NL, StoredType::kIQ4_XS, StoredType::kQ2_K, StoredType::kQ3_K,
                                      StoredType::kQ4_K, StoredType::kQ5_K, StoredType::kQ6_K}) {
            const std::string name = fmt::format("{}.{}", kind, name_of(type));
            const double theirs = errors[name].get<double>();
            const double slack = std::string_view(kind) == "small" ? 1.01 : 1 + 1e-5;  // of six digits
            const double unit = std::string_view(kind) == "constant" ? 1.0 / 4096 : 0;
            EXPECT_LE(squared_error(decoded(type, encoded(type, x), x.size()), x),
                      theirs * slack + static_cast<double>(x.size()) * unit * unit)
                << name;
        }
    }
}

// Values with four codes, which every type has: only the rounding of scales to f16 remains.
TEST(Quantise, KeepsValuesOfFewCodes) {
    for (const StoredType type : kQuantised) {
        if (!can_quantise(type)) continue;
        const auto n = static_cast<size_t>(layout_of(type).elements);
        std::vector<float> x(n);
        for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int>(i % 4) - 2) * 0.25F;  // -0.5 .. 0.25
        // Q8_0's scale is a 127th of the largest, Q5_1's a 31st of the range, IQ4's values are not even.
        const bool uneven = type == StoredType::kIQ4_NL || type == StoredType::kIQ4_XS;
        const float step = type == StoredType::kQ8_0   ? 1.0F / 254
                           : type == StoredType::kQ5_1 ? 0.75F / 62
                           : uneven                    ? 0.05F
                                                       : 0.5F / 1024;
        const std::vector<float> y = decoded(type, encoded(type, x), n);
        for (size_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i], step) << name_of(type) << " " << i;
    }
}

TEST(Quantise, SaysWhenAScaleIsBeyondF16) {
    for (const StoredType type : kQuantised) {
        if (!can_quantise(type)) continue;
        std::vector<float> x(static_cast<size_t>(layout_of(type).elements), 1e9F);
        x[3] = -1e9F;
        std::vector<std::byte> blocks(layout_of(type).bytes);
        EXPECT_FALSE(quantise(type, x.data(), layout_of(type).elements, blocks.data())) << name_of(type);
    }
}

// Values at both ends of f32: quotients and squares of them overflow.
TEST(Quantise, TakesEveryFiniteValue) {
    for (const StoredType type : kQuantised) {
        if (!can_quantise(type)) continue;
        const auto n = static_cast<size_t>(layout_of(type).elements);
        for (const float size : {1e-45F, 1e-40F, 1e-38F, 1e-31F, 1e-29F, 1e-12F}) {
            std::vector<float> x(n, 0);
            for (size_t i = 0; i < n; i += 3) x[i] = i % 2 == 0 ? size : -size;
            for (const float y : decoded(type, encoded(type, x), n)) EXPECT_LE(std::fabs(y), 1e-6F) << name_of(type);
        }
        for (const float size : {3e8F, 1e12F, 1e21F, 1e30F, 3e38F}) {
            std::vector<float> x(n, 0.5F);
            x[n - 1] = size;
            x[n - 2] = -size;
            std::vector<std::byte> blocks(layout_of(type).bytes);
            EXPECT_FALSE(quantise(type, x.data(), static_cast<int64_t>(n), blocks.data())) << name_of(type) << size;
        }
        std::vector<float> x(n, 0.5F);  // one group of tiny values among others
        std::fill(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n / 2), 1e-38F);
        const std::vector<float> y = decoded(type, encoded(type, x), n);
        EXPECT_NEAR(y[n - 1], 0.5F, 0.03F) << name_of(type);
    }
}

TEST(Quantise, WritesEveryTypeOfGgufButMxfp4) {
    for (const StoredType type : kQuantised) {
        const bool own = type == StoredType::kInt4 || type == StoredType::kFP8 || type == StoredType::kMXFP4;
        EXPECT_EQ(can_quantise(type), !own) << name_of(type);
    }
    EXPECT_FALSE(can_quantise(StoredType::kF16));
}

}  // namespace
}  // namespace trireme::test
