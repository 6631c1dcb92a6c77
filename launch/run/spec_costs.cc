#include "launch/run/spec_costs.h"

#include <fmt/ranges.h>

#include "launch/flags/text_file.h"
#include "model/files/json.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kMostReportBytes = size_t{256} << 20;  // reports contain texts
constexpr double kMostMs = 1e9;
constexpr size_t kMostLevels = 16;

LevelCosts level_in(const Json& json, std::string_view what) {
    LevelCosts costs;
    const auto legal = [&](bool condition, std::string_view want) {
        require(condition, Exit::kData, "{}: in spec_costs: want {}; take the report as it was written", what, want);
    };
    legal(json.is_object() && json.contains("level") && json["level"].is_string(), "objects with a level's name");
    costs.level = json["level"].get<std::string>();
    legal(json.contains("rows") && json["rows"].is_array() && json.contains("ms") && json["ms"].is_array() &&
              json["rows"].size() == json["ms"].size() && !json["rows"].empty(),
          "rows and ms, equal in number");
    for (size_t i = 0; i < json["rows"].size(); ++i) {
        const Json &rows = json["rows"][i], &ms = json["ms"][i];
        legal(rows.is_number_unsigned() && rows.get<uint64_t>() <= static_cast<uint64_t>(kMaxRows) &&
                  rows.get<int64_t>() > (i == 0 ? 0 : costs.points.back().rows) && (i > 0 || rows.get<int64_t>() == 1),
              fmt::format("rows that begin with 1 and rise to at most {}", kMaxRows));
        legal(ms.is_number() && ms.get<double>() > 0 && ms.get<double>() <= kMostMs,
              fmt::format("milliseconds above 0, at most {}", kMostMs));
        costs.points.push_back({rows.get<int64_t>(), ms.get<double>()});
    }
    return costs;
}

}  // namespace

SpecCosts costs_in(const Json& levels, std::string_view what) {
    SpecCosts costs;
    for (const Json& level : levels) costs.push_back(level_in(level, what));
    return costs;
}

std::string as_json(const SpecCosts& costs) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const LevelCosts& level : costs) {
        nlohmann::ordered_json rows = nlohmann::ordered_json::array(), ms = rows;
        for (const LevelCosts::Point& p : level.points) {
            rows.push_back(p.rows);
            ms.push_back(p.ms);
        }
        all.push_back({{"level", level.level}, {"rows", rows}, {"ms", ms}});
    }
    return all.dump();
}

SpecCosts read_spec_costs(const std::string& path, std::span<const std::string> levels) {
    const std::string what = "--spec-costs " + path;
    const Json json = parse_json(read_text_file(path, kMostReportBytes), what, {.bytes = kMostReportBytes});
    require(
        json.is_object() && json.contains("spec_costs") && json["spec_costs"].is_array() && !json["spec_costs"].empty(),
        Exit::kData, "{}: has no spec_costs; want the report of a run with --spec and --gamma auto", what);
    require(json["spec_costs"].size() <= kMostLevels, Exit::kData,
            "{}: spec_costs of {} levels; want the report of a run with this --spec", what, json["spec_costs"].size());
    const SpecCosts costs = costs_in(json["spec_costs"], what);
    std::vector<std::string> found;
    for (const LevelCosts& level : costs) found.push_back(shown(level.level));
    require(std::ranges::equal(found, levels), Exit::kData,
            "{}: spec_costs of {}, this chain is of {}; want the report of a run with this --spec", what,
            fmt::join(found, ", "), fmt::join(levels, ", "));
    return costs;
}

void share(SpecCosts& costs, Comm& comm) {
    std::string text = as_json(costs);
    comm.broadcast(text);
    costs = costs_in(parse_json(text, "spec_costs"), "spec_costs");
}

}  // namespace trireme
