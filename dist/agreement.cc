#include "dist/agreement.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace trireme {
namespace {

void append(std::string& to, const std::string& s) {
    const uint64_t bytes = s.size();
    to.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    to += s;
}

std::string take(const std::string& from, size_t& at) {
    uint64_t bytes = 0;
    check(from.size() - at >= sizeof(bytes), "agreement: a message of {} bytes ends in a length", from.size());
    std::memcpy(&bytes, from.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    check(from.size() - at >= bytes, "agreement: a message of {} bytes ends in a value", from.size());
    at += bytes;
    return from.substr(at - bytes, bytes);
}

std::optional<std::string> find(const KeyValues& pairs, const std::string& key) {
    const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.first == key; });
    return it == pairs.end() ? std::nullopt : std::optional(it->second);
}

/// Returns the value that most ranks have; of equally frequent ones, the lowest rank's.
std::optional<std::string> common(const std::vector<KeyValues>& all, const std::string& key) {
    std::optional<std::string> best;
    ptrdiff_t most = 0;
    for (const KeyValues& pairs : all) {
        const auto value = find(pairs, key);
        const auto n = std::count_if(all.begin(), all.end(), [&](const auto& p) { return find(p, key) == value; });
        if (n > most) {
            most = n;
            best = value;
        }
    }
    return best;
}

}  // namespace

std::string first_difference(const std::vector<KeyValues>& all) {
    KeyValues wanted;  // every key of any rank, in order of appearance
    std::vector<std::optional<std::string>> values;
    for (const KeyValues& pairs : all) {
        for (const auto& [key, value] : pairs) {
            if (find(wanted, key)) continue;
            wanted.emplace_back(key, "");
            values.push_back(common(all, key));
        }
    }
    for (size_t rank = 0; rank < all.size(); ++rank) {
        std::string line;
        for (size_t i = 0; i < wanted.size(); ++i) {
            const std::string& key = wanted[i].first;
            const auto value = find(all[rank], key);
            if (value == values[i]) continue;
            line += fmt::format("{}{} (others {})", line.empty() ? "" : ", ",
                                value ? fmt::format("{}={}", key, *value) : key + " is not set",
                                values[i].value_or("do not set it"));
        }
        if (!line.empty()) return fmt::format("rank {} differs: {}", rank, line);
    }
    return "";
}

void require_agreement(Comm& comm, const KeyValues& mine) {
    std::string bytes;
    for (const auto& [key, value] : mine) {
        append(bytes, key);
        append(bytes, value);
    }
    const std::vector<std::string> gathered = comm.gather_bytes(bytes);
    if (std::all_of(gathered.begin(), gathered.end(), [&](const auto& s) { return s == gathered[0]; })) return;

    std::vector<KeyValues> all;
    for (const std::string& s : gathered) {
        KeyValues& pairs = all.emplace_back();
        for (size_t at = 0; at < s.size();) {
            std::string key = take(s, at);
            pairs.emplace_back(std::move(key), take(s, at));
        }
    }
    const std::string line = first_difference(all);
    check(!line.empty(), "agreement: ranks gave the same settings in different orders");
    throw AgreedError(Exit::kConfig, line);
}

}  // namespace trireme
