#pragma once
/// Requests and outputs of `trireme batch`, for tests.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {

using Json = nlohmann::json;

inline std::string as_lines(const std::vector<Json>& requests) {
    std::string text;
    for (const Json& r : requests) text += r.dump() + "\n";
    return text;
}

/// Prompts of different lengths from the model's training domain, each with a limit of a few tokens.
inline std::vector<Json> requests(size_t n) {
    const std::vector<std::string> verses = {
        "In the beginning God created the heaven and the earth.",
        "And the earth was without form, and void; and darkness was upon the face of the deep.",
        "And God said, Let there be light: and there was light."};
    std::vector<Json> all;
    for (size_t i = 0; i < n; ++i) {
        std::string text = verses[i % verses.size()];
        for (size_t k = 0; k < i / verses.size(); ++k) text += " " + verses[k % verses.size()];
        all.push_back({{"prompt", text}, {"max_tokens", 6 + i % 5}, {"number", i}});
    }
    return all;
}

/// A folder with requests and, after a run, their results.
class BatchFiles {
  public:
    explicit BatchFiles(const std::vector<Json>& all) { write_file(input(), as_lines(all)); }
    std::string input() const { return folder_ / "in.jsonl"; }
    std::string output() const { return folder_ / "out.jsonl"; }
    const TempFolder& folder() const { return folder_; }

    Words command(const Words& more = {}) const {
        Words words = {"batch", "-m", model(), "--input", input(), "-o", output(), "--temp", "0", "-t", "1"};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    /// The output's lines, without the times, which differ between runs.
    std::vector<Json> results() const {
        std::vector<Json> all;
        for (const std::string& line : lines_of(read_file(output()))) {
            Json json = Json::parse(line);
            json.at("result").erase("request_time");
            all.push_back(std::move(json));
        }
        return all;
    }
    std::vector<std::string> texts() const {
        std::vector<std::string> all;
        for (const Json& line : results()) all.push_back(line.at("/result/choices/0/text"_json_pointer));
        return all;
    }

  private:
    TempFolder folder_;
};

}  // namespace trireme::test
