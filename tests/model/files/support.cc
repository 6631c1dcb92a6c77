#include "tests/model/files/support.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "model/checkpoint/expected_tensors.h"

namespace trireme::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
    std::string name = (fs::temp_directory_path() / "trireme-test-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, "no temporary folder {}", name);
    path_ = name;
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

fs::path TempFolder::write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
}

std::string slurp(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

void expect_error(const std::function<void()>& f, Exit code, const std::vector<std::string>& parts) {
    try {
        f();
    } catch (const Error& e) {
        const std::string what = e.what();
        EXPECT_EQ(e.code(), code) << what;
        EXPECT_EQ(what.find('\n'), std::string::npos) << what;
        for (const std::string& part : parts) EXPECT_NE(what.find(part), std::string::npos) << part << " in: " << what;
        return;
    }
    ADD_FAILURE() << "nothing failed; expected: " << (parts.empty() ? "an error" : parts.front());
}

std::string safetensors(const std::string& header, std::string_view data) {
    std::string bytes(8, '\0');
    const uint64_t n = header.size();
    std::memcpy(bytes.data(), &n, 8);
    return bytes + header + std::string(data);
}

std::string safetensors(const MadeTensors& tensors) {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
    for (const auto& [name, t] : tensors) {
        std::string shape;
        for (const int64_t d : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
        header += fmt::format(",\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", name, t.dtype,
                              shape, data.size(), data.size() + t.data.size());
        data += t.data;
    }
    return safetensors(header + "}", data);
}

std::string small_config(const std::string& extra) {
    return R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 24, "vocab_size": 12, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5)" +
           extra + "}";
}

MadeTensors small_tensors() {
    MadeTensors made;
    float next = 0;
    for (const ExpectedTensor& t : expected_tensors(parse_config(parse_json(small_config(), "small"), "small"))) {
        std::vector<float> values(static_cast<size_t>(t.shape.elements()));
        for (float& v : values) v = next++ / 1024;
        std::vector<int64_t> shape;
        for (int i = 0; i < t.shape.rank(); ++i) shape.push_back(t.shape[i]);
        made[t.name] = {"F32", shape, std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
    }
    return made;
}

void write_small_model(const TempFolder& folder, const MadeTensors& tensors) {
    folder.write("config.json", small_config());
    folder.write("model.safetensors", safetensors(tensors));
}

std::vector<float> read_f32(const WeightSource& source, std::string_view name, int64_t row0, int64_t col0,
                            const Shape& shape) {
    std::vector<float> out(static_cast<size_t>(shape.elements()));
    source.read(name, row0, col0, HostTensor(out.data(), DType::kF32, shape));
    return out;
}

std::vector<float> read_all(const WeightSource& source, std::string_view name) {
    return read_f32(source, name, 0, 0, source.info(name).shape);
}

}  // namespace trireme::test
