#include "model/checkpoint/config.h"

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

LlamaConfig parse(const std::string& text) {
    return parse_config(parse_json(text, "config.json"), "config.json");
}
LlamaConfig with(const std::string& extra) {
    return parse(small_config(", " + extra));
}

/// The small config with one value replaced.
std::string changed(const std::string& key, const std::string& value) {
    Json json = parse_json(small_config(), "config.json");
    json[key] = parse_json(value, "value");
    return json.dump();
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
    expect_error([&] { parse(text); }, Exit::kData, parts);
}

TEST(Config, ReadsLlama) {
    const LlamaConfig c = with(R"("rope_theta": 500000.0, "tie_word_embeddings": true,
        "eos_token_id": [4, 5], "head_dim": 24, "_name_or_path": "a/b")");

    EXPECT_EQ(c.family->model_type, "llama");
    EXPECT_EQ(c.name, "a/b");
    EXPECT_EQ(c.n_layers, 2);
    EXPECT_EQ(c.dim, 16);
    EXPECT_EQ(c.n_heads, 2);
    EXPECT_EQ(c.n_kv_heads, 1);
    EXPECT_EQ(c.head_dim, 24);
    EXPECT_EQ(c.ffn_dim, 24);
    EXPECT_EQ(c.vocab, 12);
    EXPECT_EQ(c.context, 32);
    EXPECT_EQ(c.norm_eps, 1e-5);
    EXPECT_TRUE(c.tied_embeddings);
    EXPECT_EQ(c.rope.theta, 500000);
    EXPECT_EQ(c.rope.scaling, RopeScaling::kNone);
    EXPECT_EQ(c.eos, (std::vector<int32_t>{4, 5}));
    EXPECT_EQ(c.layer_map, LayerMap::identity(2));
}

TEST(Config, MissingKeysMeanWhatTransformersMeans) {
    const LlamaConfig c = parse(R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64,
        "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 12})");

    EXPECT_EQ(c.n_kv_heads, 4);
    EXPECT_EQ(c.head_dim, 16);
    EXPECT_EQ(c.context, 2048);
    EXPECT_EQ(c.norm_eps, 1e-6);
    EXPECT_EQ(c.rope.theta, 10000);
    EXPECT_FALSE(c.tied_embeddings);
    EXPECT_EQ(c.eos, (std::vector<int32_t>{2}));
    const LlamaConfig none = with(R"("eos_token_id": null, "rope_scaling": null, "head_dim": null)");
    EXPECT_TRUE(none.eos.empty());
    EXPECT_EQ(none.head_dim, 8);
}

TEST(Config, TakesWhateverItDoesNotNeed) {
    EXPECT_NO_THROW(with(R"("torch_dtype": "float8_e4m3fn")"));  // each tensor has its own type
    EXPECT_NO_THROW(with(R"("bos_token_id": 128000)"));          // only the tokenizer needs it
}

TEST(Config, BothSpellingsOfTheRopeAgree) {
    const std::string yarn =
        R"("factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 16, "truncate": false)";
    const RopeConfig a = with(R"("rope_theta": 5000, "rope_scaling": {"type": "yarn", )" + yarn + "}").rope;
    const RopeConfig b = with(R"("rope_theta": 5000, "rope_scaling": {"rope_type": "yarn", )" + yarn + "}").rope;
    const RopeConfig c = with(R"("rope_parameters": {"rope_theta": 5000, "rope_type": "yarn", )" + yarn + "}").rope;

    for (const RopeConfig& r : {a, b, c}) {
        EXPECT_EQ(r.theta, 5000);
        EXPECT_EQ(r.scaling, RopeScaling::kYarn);
        EXPECT_EQ(r.factor, 4);
        EXPECT_EQ(r.original_context, 16);
        EXPECT_EQ(r.beta_fast, 16);
        EXPECT_EQ(r.beta_slow, 1);
        EXPECT_FALSE(r.truncate);
        EXPECT_EQ(r.attention_factor, 0);
    }
}

TEST(Config, ReadsEveryRopeScaling) {
    const LlamaConfig linear = with(R"("rope_scaling": {"type": "linear", "factor": 4})");
    EXPECT_EQ(linear.rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(linear.context, 128);
    const LlamaConfig dynamic = with(R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.5})");
    EXPECT_EQ(dynamic.rope.scaling, RopeScaling::kDynamic);
    EXPECT_EQ(dynamic.rope.original_context, 32);
    EXPECT_EQ(dynamic.context, 80);
    const LlamaConfig llama3 = with(R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 16})");
    EXPECT_EQ(llama3.rope.scaling, RopeScaling::kLlama3);
    EXPECT_EQ(llama3.rope.original_context, 16);
    EXPECT_EQ(llama3.rope.high_freq_factor, 4);
    EXPECT_EQ(llama3.context, 32);
    EXPECT_EQ(with(R"("rope_parameters": {"rope_type": "default", "rope_theta": 7.0})").rope.theta, 7);
}

TEST(Config, YarnContextAndAttentionFactorFollowTheFile) {
    // max_position_embeddings is sometimes the stretched length (32 = 8 x 4), sometimes the trained one.
    EXPECT_EQ(with(R"("rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 8})").context,
              32);
    EXPECT_EQ(with(R"("rope_scaling": {"type": "yarn", "factor": 4})").context, 128);
    // Without a factor it is the ratio of the two lengths.
    EXPECT_EQ(with(R"("rope_scaling": {"type": "yarn", "original_max_position_embeddings": 8})").rope.factor, 4);
    EXPECT_EQ(with(R"("rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1.5})").rope.attention_factor,
              1.5);
    const double m = with(R"("rope_scaling": {"type": "yarn", "factor": 4, "mscale": 0.5, "mscale_all_dim": 1.0})")
                         .rope.attention_factor;
    EXPECT_DOUBLE_EQ(m, (0.05 * std::log(4) + 1) / (0.1 * std::log(4) + 1));
}

TEST(Config, RefusesWhatChangesTheResult) {
    expect_refused(changed("model_type", "\"gemma\""),
                   {"'model_type' is 'gemma'", "llama, mistral, qwen2, qwen3, phi3"});
    expect_refused(changed("hidden_act", "\"gelu\""), {"'hidden_act' is 'gelu'", "silu"});
    expect_refused(changed("mlp_bias", "true"), {"'mlp_bias' is true"});
    expect_refused(changed("partial_rotary_factor", "0.5"), {"'partial_rotary_factor' is 0.5"});
    expect_refused(changed("layer_types", R"(["full_attention", "sliding_attention"])"), {"'layer_types'"});
    expect_refused(changed("sliding_window", "16"), {"window of 16"});
    EXPECT_NO_THROW(parse(changed("sliding_window", "32")));
    EXPECT_NO_THROW(parse(changed("layer_types", R"(["full_attention", "full_attention"])")));
}

TEST(Config, RefusesUnknownRopeTypesNamingTheKnown) {
    expect_refused(small_config(R"(, "rope_scaling": {"rope_type": "ntk", "factor": 2})"),
                   {"'ntk'", "default, linear, dynamic, yarn, llama3, longrope"});
    expect_refused(small_config(R"(, "rope_scaling": {"factor": 2})"), {"no 'rope_type'"});
    expect_refused(small_config(R"(, "rope_scaling": {"type": "linear"})"), {"'factor' is missing"});
    expect_refused(small_config(R"(, "rope_scaling": {"type": "llama3", "factor": 8})"),
                   {"'low_freq_factor' is missing"});
    expect_refused(small_config(R"(, "rope_scaling": 2)"), {"not a JSON object"});
    expect_refused(small_config(R"(, "rope_scaling": {"type": "linear", "factor": 0.5})"), {"factor is 0.5"});
    expect_refused(small_config(R"(, "rope_scaling": {"type": "linear", "factor": 1e300})"), {"at most 16777216"});
    expect_refused(small_config(R"(, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
        "high_freq_factor": 4})"),
                   {"high_freq_factor is 4"});
}

TEST(Config, RefusesImpossibleShapes) {
    const struct {
        const char *key, *value, *part;
    } kCases[] = {
        {"num_hidden_layers", "0", "between 1 and 1024"},
        {"num_hidden_layers", "1025", "between 1 and 1024"},
        {"num_hidden_layers", "2.5", "whole number"},
        {"num_hidden_layers", "\"2\"", "whole number"},
        {"num_hidden_layers", "1e300", "whole number"},
        {"num_hidden_layers", "-9223372036854775808", "whole number"},
        {"num_hidden_layers", "18446744073709551615", "whole number"},
        {"num_attention_heads", "0", "between 1 and 1024"},
        {"num_attention_heads", "3", "no multiple of 3 heads"},
        {"num_attention_heads", "-2", "between 1 and 1024"},
        {"num_key_value_heads", "0", "KV heads"},
        {"num_key_value_heads", "4", "KV heads"},
        {"hidden_size", "0", "is 0"},
        {"hidden_size", "18", "multiple of 8"},
        {"hidden_size", "4096000000", "between"},
        {"head_dim", "12", "multiple of 8"},
        {"head_dim", "0", "between 8 and 1024"},
        {"head_dim", "2048", "between 8 and 1024"},
        {"intermediate_size", "0", "intermediate"},
        {"vocab_size", "0", "between 1 and 2097152"},
        {"vocab_size", "2097153", "between 1 and 2097152"},
        {"max_position_embeddings", "0", "between 1 and 16777216"},
        {"max_position_embeddings", "16777217", "between 1 and 16777216"},
        {"rms_norm_eps", "0", "epsilon"},
        {"rms_norm_eps", "-1e-5", "epsilon"},
        {"rms_norm_eps", "2", "epsilon"},
        {"rope_theta", "0", "theta"},
        {"rope_theta", "-10000", "theta"},
        {"rope_theta", "1e300", "theta"},
        {"eos_token_id", "1.5", "a token id"},
        {"eos_token_id", "[1, null]", "a token id"},
        {"tie_word_embeddings", "1", "true or false"},
    };
    for (const auto& c : kCases) {
        SCOPED_TRACE(std::string(c.key) + " = " + c.value);
        expect_refused(changed(c.key, c.value), {c.part});
    }
    expect_refused("[]", {"not a JSON object"});
    expect_refused("{}", {"'model_type' is missing"});
    for (const char* key :
         {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
        expect_refused(changed(key, "null"), {std::string("'") + key + "' is missing"});
    }
}

TEST(Config, HeadsThatDoNotShareEvenlyAreRefused) {
    Json json = parse_json(small_config(), "config.json");
    json["num_attention_heads"] = 6;
    json["num_key_value_heads"] = 4;
    json["head_dim"] = 8;
    expect_refused(json.dump(), {"6 heads", "4 KV heads"});
}

TEST(Config, GenerationConfigHasTheLastWordOnEos) {
    LlamaConfig c = with(R"("eos_token_id": 4)");
    apply_generation_config(c, parse_json(R"({"eos_token_id": [5, 6], "temperature": 0.6})", "g"), "g");
    EXPECT_EQ(c.eos, (std::vector<int32_t>{5, 6}));
    apply_generation_config(c, parse_json(R"({"temperature": 0.6})", "g"), "g");
    EXPECT_EQ(c.eos, (std::vector<int32_t>{5, 6}));
    // Ids outside the vocabulary end no sequence, as in transformers.
    apply_generation_config(c, parse_json(R"({"eos_token_id": [99, 3, -1]})", "g"), "g");
    EXPECT_EQ(c.eos, (std::vector<int32_t>{3}));
    apply_generation_config(c, parse_json(R"({"eos_token_id": -1})", "g"), "g");
    EXPECT_TRUE(c.eos.empty());
    EXPECT_EQ(with(R"("eos_token_id": [1, 12])").eos, (std::vector<int32_t>{1}));
}

}  // namespace
}  // namespace trireme::test
