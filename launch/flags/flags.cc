#include "launch/flags/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "launch/flags/flag_groups.h"

namespace trireme {

std::span<const FlagGroup> flag_groups() {
    static const std::vector<FlagGroup> groups = {
        prompt_flags(),  continuation_flags(), sampling_flags(), precision_flags(), kv_flags(),   eviction_flags(),
        sharing_flags(), speculation_flags(),  snapshot_flags(), bench_flags(),     data_flags(), batch_flags(),
        score_flags(),   evaluate_flags(),     machine_flags(),  output_flags()};
    return groups;
}

std::span<const Flag> flags() {
    static const std::vector<Flag> all = [] {
        std::vector<Flag> v;
        for (const FlagGroup& g : flag_groups()) v.insert(v.end(), g.flags.begin(), g.flags.end());
        return v;
    }();
    return all;
}

std::string Flag::shown_default() const {
    const std::string shown = show(Options{});
    return shown.empty() ? std::string(fallback) : shown;
}

std::string Flag::env_name() const {
    std::string env = "TRIREME_";
    for (const char c : name) env += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return env;
}

bool same_spelling(std::string_view a, std::string_view b) {
    const bool long_ones = a.starts_with("--") && b.starts_with("--");
    const auto folded = [&](char c) { return long_ones && c == '_' ? '-' : c; };
    return std::ranges::equal(a, b, {}, folded, folded);
}

const Flag* find_spelling(std::string_view spelling) {
    for (const Flag& flag : flags()) {
        for (const std::string_view s : flag.spellings) {
            if (same_spelling(s, spelling)) return &flag;
        }
    }
    return nullptr;
}

const Flag* find_spelling(std::string_view spelling, Command command) {
    for (const Flag& flag : flags()) {
        if (!flag.belongs_to(command)) continue;
        for (const std::string_view s : flag.spellings) {
            if (same_spelling(s, spelling)) return &flag;
        }
    }
    return nullptr;
}

const Flag* find_key(std::string_view key) {
    return find_spelling("--" + std::string(key));
}

std::vector<std::string> spellings_of(Command command) {
    std::vector<std::string> all;
    for (const Flag& flag : flags()) {
        if (flag.belongs_to(command)) all.insert(all.end(), flag.spellings.begin(), flag.spellings.end());
    }
    return all;
}

std::vector<std::string> keys() {
    std::vector<std::string> all;
    for (const Flag& flag : flags()) {
        for (const std::string_view s : flag.spellings) {
            if (s.starts_with("--")) all.emplace_back(s.substr(2));
        }
    }
    return all;
}

std::string shown(int64_t number) {
    return std::to_string(number);
}
std::string shown(uint64_t number) {
    return std::to_string(number);
}
std::string shown(double number) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

std::vector<Setting> parts_of(const Setting& s) {
    std::vector<Setting> all;
    for (size_t from = 0; from <= s.text.size();) {
        const size_t end = std::min(s.text.find(',', from), s.text.size());
        all.push_back({s.where, s.text.substr(from, end - from)});
        require(!all.back().text.empty(), Exit::kConfig, "{} '{}': has an empty part; want a list such as a,b", s.where,
                s.text);
        from = end + 1;
    }
    return all;
}

std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += (all.empty() ? "" : ",") + part;
    return all;
}

std::span<const Command> commands() {
    static constexpr std::array kAll = {Command::kGenerate, Command::kTokenize, Command::kScore, Command::kPlan,
                                        Command::kDoctor,   Command::kBench,    Command::kBatch, Command::kConvert,
                                        Command::kReport,   Command::kChat,     Command::kPipe,  Command::kEvaluate};
    return kAll;
}

std::string_view name_of(Command command) {
    switch (command) {
        case Command::kGenerate:
            return "generate";
        case Command::kTokenize:
            return "tokenize";
        case Command::kScore:
            return "score";
        case Command::kPlan:
            return "plan";
        case Command::kDoctor:
            return "doctor";
        case Command::kBench:
            return "bench";
        case Command::kBatch:
            return "batch";
        case Command::kConvert:
            return "convert";
        case Command::kReport:
            return "report";
        case Command::kChat:
            return "chat";
        case Command::kPipe:
            return "pipe";
        case Command::kEvaluate:
            return "evaluate";
    }
    return "";
}

}  // namespace trireme
