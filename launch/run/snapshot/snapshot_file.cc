#include "launch/run/snapshot/snapshot_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "launch/run/settings.h"
#include "launch/run/spec_costs.h"
#include "model/files/keys.h"
#include "model/files/shown.h"
#include "model/files/store/digest.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/random.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshotKind = "kv snapshot", kPartKind = "kv snapshot part";
constexpr int kMostRanks = 4096;

// Settings that may differ when a snapshot is resumed: memory, lengths and output.
constexpr std::array kFree = {
    "model",       "model-draft",   "suffix-corpus", "commit",           "command",     "ctx-size",    "n-predict",
    "num-samples", "parallel",      "stop",          "ignore-eos",       "print",       "add-special", "kv-on-chip",
    "kv-ring",     "device-memory", "host-memory",   "link-gbps",        "link-us",     "kv-verify",   "kv-wire",
    "no-graphs",   "graphs",        "grace",         "checkpoint-every", "eos_token_id"};
// Settings of the model. All others belong to the chain or to sampling.
constexpr std::array kModelSettings = {"family",       "heads",        "context",      "rms_norm_eps", "rope_theta",
                                       "rope_scaling", "rope_numbers", "rope_factors", "rope_rotated", "longrope",
                                       "layer_map",    "sharing",      "tensors",      "tokenizer",    "weights",
                                       "cache-type-k", "cache-type-v"};

template <class List>
bool in(const List& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
}

/// Returns "key=theirs (this run: mine)" for the first difference among keys that `counts` accepts; "": none.
template <class Counts>
std::string difference(const KeyValues& theirs, const KeyValues& mine, const Counts& counts) {
    // A flag and the value derived from it may have the same name. The derived value comes later, and is compared.
    const std::map<std::string, std::string> there(theirs.begin(), theirs.end());
    std::map<std::string, std::string> here;
    for (const auto& [name, value] : mine) here[name] = value;
    for (const auto& [name, value] : here) {
        if (!counts(name)) continue;
        const std::string said = value_of(there, name);
        if (said != value) return fmt::format("{}={} (this run: {})", name, shown(said), shown(value));
    }
    return "";
}

FullCache* full_view_of(Engine& engine) {
    return engine.model().full();
}

Buffer<Space::kHost> staging_for(Engine& engine) {
    return {engine.device(), tile_staging_bytes(engine.model().cache().shape())};
}

void take(const StoreReader& store, const std::string& name, const Buffer<Space::kHost>& staging,
          const std::function<void(Archive&)>& state) {
    ArchiveFromStore ar(store, name, staging);
    state(ar);
    ar.finish();
}

void require_full(Engine& engine, const std::string& path) {
    require(full_view_of(engine) != nullptr, Exit::kConfig,
            "--load-kv {}: with --kv-policy a run is resumed with the same flags and ranks only", path);
}

/// Returns "FILE.rank-0-of-2.ID", without its folder.
std::string part_name(const std::string& path, int rank, int ranks, const std::string& id) {
    return fmt::format("{}.rank-{}-of-{}.{}", fs::path(path).filename().string(), rank, ranks, id);
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::string path, IfThere old, const RankGroup& rank_group, Engine& engine,
                               std::vector<Remembered> known, KeyValues settings)
    : path_(std::move(path)),
      old_(old),
      rank_group_(rank_group),
      engine_(engine),
      known_(std::move(known)),
      settings_(std::move(settings)) {}

uint64_t SnapshotWriter::write_rank(const SnapshotText& text, const SpecCosts& costs, const std::string& id,
                                    const std::vector<std::string>& parts) {
    const int rank = rank_group_.comm().rank();
    FullCache* const full = full_view_of(engine_);
    const Shard& shard = engine_.weights().shard();
    const int64_t tokens = full == nullptr ? 0 : full->length(0);
    const std::vector<int32_t> ids = text.ids();
    Json about = {{"tokens", tokens},
                  {"prompt_tokens", text.prompt.size()},
                  {"id", id},
                  {"rank", rank},
                  {"first_head", shard.kv_begin},
                  {"heads", shard.n_kv_heads},
                  {"costs", Json::parse(as_json(costs))},
                  {"parts", parts}};
    for (const auto& [name, value] : settings_) about["settings"][name] = value;

    std::vector<StoreSet> sets = {{"ids", DType::kI32, {static_cast<int64_t>(ids.size())}}};
    const auto add = [&](const std::vector<StoreSet>& more) {
        const size_t first = sets.size();
        sets.insert(sets.end(), more.begin(), more.end());
        return first;
    };
    std::vector<std::pair<size_t, ArchiveToStore>> archives;
    const auto remember = [&](const std::string& name, const std::function<void(Archive&)>& state) {
        ArchiveToStore ar;
        state(ar);
        const size_t at = add(ar.sets(name));
        archives.emplace_back(at, std::move(ar));
    };
    for (const Remembered& r : known_) remember(r.name, r.state);
    if (engine_.proposing() != nullptr) {
        for (const auto& [name, set] : engine_.proposing()->sets()) {
            if (KvSet* const s = set) remember(name, [s](Archive& ar) { s->state(ar); });
        }
    }
    const size_t tiles_at = full == nullptr ? 0 : add(tile_sets(full->shape(), tokens));
    const bool part = !parts.empty();
    const std::string to = part ? (fs::path(path_).parent_path() / parts[index(rank)]).string() : path_;
    StoreWriter writer(to, part ? IfThere::kRefuse : old_, std::string(part ? kPartKind : kSnapshotKind),
                       std::move(sets), about.dump());
    const Buffer<Space::kHost> staging = staging_for(engine_);
    writer.append(0, std::as_bytes(std::span(ids)));
    for (const auto& [at, ar] : archives) ar.write(writer, at, staging);
    if (full != nullptr) write_tiles(*full, engine_.device().backend(), writer, tiles_at, staging);
    if (part) {
        writer.publish();
    } else {
        publish(writer);
    }
    return writer.bytes();
}

/// Gives the snapshot its final name. It has this name even if an error follows, when its folder cannot be flushed.
void SnapshotWriter::publish(StoreWriter& writer) {
    try {
        writer.publish();
    } catch (...) {
        named_ = writer.published();
        throw;
    }
    named_ = true;
}

uint64_t SnapshotWriter::write(const SnapshotText& text, const SpecCosts& costs) {
    const int ranks = rank_group_.comm().size();
    std::string id;
    rank_group_.first_only([&] { id = hex(drawn_by_system("an id")); });
    rank_group_.comm().broadcast(id);
    std::vector<std::string> parts;
    for (int r = 0; ranks > 1 && r < ranks; ++r) parts.push_back(part_name(path_, r, ranks, id));
    uint64_t bytes = 0;
    named_ = false;
    try {
        rank_group_.phase([&] { bytes = write_rank(text, costs, id, parts); });
        rank_group_.first_only([&] {
            if (parts.empty()) return;
            // The parts' names are durable: each part was flushed to the disk together with its folder.
            Json about = {{"parts", parts}, {"id", id}};
            StoreWriter manifest(path_, old_, std::string(kSnapshotKind), {}, about.dump());
            publish(manifest);
        });
    } catch (...) {
        if (named_) {
            old_ = IfThere::kReplace;
        } else if (rank_group_.first()) {
            sweep(id, /*of_others=*/false);
        }
        throw;
    }
    rank_group_.first_only([&] { sweep(id, /*of_others=*/true); });
    old_ = IfThere::kReplace;
    uint64_t all = 0;
    for (const uint64_t of_rank : rank_group_.comm().gather_values(bytes)) all += of_rank;
    return all;
}

/// Removes the ranks' files of this snapshot, which could not be written, or those of all others, which no FILE names
/// any more. Killed runs may have left some.
void SnapshotWriter::sweep(const std::string& id, bool of_others) const {
    const std::string begins = fs::path(path_).filename().string() + ".rank-";
    const fs::path folder = fs::path(path_).has_parent_path() ? fs::path(path_).parent_path() : ".";
    std::error_code ignored;
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        const std::string name = entry.path().filename().string();
        const bool part = name.starts_with(begins) || name.starts_with("." + begins);
        if (part && (name.find(id) == std::string::npos) == of_others) all.push_back(entry.path());
    }
    for (const fs::path& p : all) fs::remove(p, ignored);
}

SnapshotReader::SnapshotReader(std::string path, const RankGroup& rank_group) : path_(std::move(path)) {
    rank_group.phase([&] {
        manifest_ = std::make_unique<StoreReader>(open_file(path_), kSnapshotKind);
        const auto fine = [&](bool condition, std::string_view what) {
            require(condition, Exit::kData, "{}: {}: it is no snapshot of this program's", path_, what);
        };
        const Json& names = manifest_->about()["parts"];
        fine(names.is_array() && names.size() <= static_cast<size_t>(kMostRanks), "the ranks' files are not named");
        for (const Json& name : names) {
            fine(name.is_string(), "the ranks' files are not named");
            const fs::path folder = fs::path(path_).has_parent_path() ? fs::path(path_).parent_path() : ".";
            parts_.push_back(std::make_unique<StoreReader>(open_in_folder(folder, name.get<std::string>()), kPartKind));
        }
        const StoreReader& first = parts_.empty() ? *manifest_ : *parts_[0];
        for (size_t r = 0; r < std::max<size_t>(1, parts_.size()); ++r) {
            const StoreReader& part = parts_.empty() ? *manifest_ : *parts_[r];
            const Keys keys(part.about(), part.name());
            fine(keys.string("id") == Keys(manifest_->about(), path_).string("id"), "files of two snapshots");
            fine(keys.integer("rank") == static_cast<int64_t>(r), "the ranks' files are mixed up");
            tiles_.push_back({.store = &part,
                              .first_head = keys.required(keys.integer("first_head"), "first_head"),
                              .heads = keys.required(keys.integer("heads"), "heads")});
        }
        const Keys keys(first.about(), first.name());
        tokens_ = keys.required(keys.integer("tokens"), "tokens");
        const std::vector<int32_t> ids = first.all<int32_t>(first.set("ids", DType::kI32, 1));
        const int64_t prompt = keys.required(keys.integer("prompt_tokens"), "prompt_tokens");
        fine(prompt > 0 && prompt <= static_cast<int64_t>(ids.size()) && tokens_ >= 0 &&
                 tokens_ <= static_cast<int64_t>(ids.size()),
             "the text's length");
        text_ = {.prompt = {ids.begin(), ids.begin() + prompt}, .generated = {ids.begin() + prompt, ids.end()}};
        const Json* const settings = keys.find("settings");
        fine(settings != nullptr && settings->is_object(), "the settings are missing");
        for (const auto& [name, value] : settings->items()) {
            fine(value.is_string(), "a setting is no text");
            settings_.emplace_back(name, value.get<std::string>());
        }
        const Json* const costs = keys.find("costs");
        fine(costs != nullptr && costs->is_array(), "the costs are missing");
        costs_ = costs_in(*costs, first.name());
    });
}

void SnapshotReader::require_same_model(const KeyValues& mine) const {
    const std::string other =
        difference(settings_, mine, [](const std::string& name) { return in(kModelSettings, name); });
    require(other.empty(), Exit::kData, "{}: a snapshot of another model: {}", path_, other);
}

std::string SnapshotReader::other_chain(const KeyValues& mine) const {
    return difference(settings_, mine,
                      [](const std::string& name) { return !in(kModelSettings, name) && !in(kFree, name); });
}

bool SnapshotReader::remembers(const std::string& name) const {
    return (parts_.empty() ? *manifest_ : *parts_[0]).find(name + "/values") != nullptr;
}

void SnapshotReader::fill(Engine& engine, const Buffer<Space::kHost>& staging) const {
    FullCache* const full = full_view_of(engine);
    require(full == nullptr || tokens_ > 0, Exit::kConfig,
            "--load-kv {}: it has what a bounded cache kept, and this run keeps all tokens", path_);
    if (full != nullptr)
        read_tiles(*full, engine.device().backend(), tokens_, engine.weights().shard().kv_begin, tiles_, staging);
}

void SnapshotReader::load(Engine& engine, const std::vector<Remembered>& known, const RankGroup& rank_group) const {
    rank_group.phase([&] {
        const Buffer<Space::kHost> staging = staging_for(engine);
        fill(engine, staging);
        const StoreReader& store = own(rank_group);
        if (engine.proposing() != nullptr) {
            for (const auto& [name, set] : engine.proposing()->sets()) {
                if (KvSet* const s = set) take(store, name, staging, [s](Archive& ar) { s->state(ar); });
            }
        }
        for (const Remembered& r : known) take(store, r.name, staging, r.state);
    });
}

void SnapshotReader::load_tiles(Engine& engine, const std::vector<Remembered>& known,
                                const RankGroup& rank_group) const {
    rank_group.phase([&] {
        require_full(engine, path_);
        if (engine.proposing() != nullptr) {
            for (const auto& [name, set] : engine.proposing()->sets()) {
                require(set == nullptr, Exit::kConfig,
                        "--load-kv {}: it has nothing {} for this chain; save it with this --spec, and this number of "
                        "ranks",
                        path_, name);
            }
        }
        const Buffer<Space::kHost> staging = staging_for(engine);
        fill(engine, staging);
        for (const Remembered& r : known) take(parts_.empty() ? *manifest_ : *parts_[0], r.name, staging, r.state);
    });
}

void SnapshotReader::load_text(Engine& engine, Chain& chain, const RankGroup& rank_group) const {
    Level& level = engine.model();
    const bool same_ranks = ranks() == rank_group.comm().size(), behind_prompt = text_.generated.empty();
    const std::vector<int32_t> ids = text_.ids();
    const bool logits_there = same_ranks && behind_prompt;
    rank_group.phase([&] {
        require_full(engine, path_);
        const Buffer<Space::kHost> staging = staging_for(engine);
        fill(engine, staging);
        const StoreReader& store = own(rank_group);
        if (logits_there) take(store, "level", staging, [&](Archive& ar) { level.state(ar, /*tiles=*/false); });
        if (engine.proposing() == nullptr) return;
        const std::string other_backend =
            difference(settings_, engine.settings(), [](const std::string& name) { return name == "backend"; });
        for (const auto& [name, set] : engine.proposing()->sets()) {
            if (set == nullptr) continue;
            require(
                other_backend.empty(), Exit::kConfig,
                "--load-kv {}: what it has {} for this chain is of another kind of device: {}; load it without --spec",
                path_, name, other_backend);
            require(
                logits_there && store.find(std::string(name) + "/values") != nullptr, Exit::kConfig,
                "--load-kv {}: it has nothing {} for this chain{}; save it with this --spec, and this number of ranks",
                path_, name, behind_prompt ? "" : " after generated tokens");
            take(store, name, staging, [s = set](Archive& ar) { s->state(ar); });
        }
    });
    if (!logits_there) {
        // The next token's logits come from the last token; its keys and values are computed again.
        const int64_t there = std::min(tokens_, static_cast<int64_t>(ids.size()) - 1);
        level.truncate(0, there);
        level.prefill(0, std::span(ids).subspan(index(there)));
        level.logits().save();
    }
    chain.decoder().adopt(ids);
}

}  // namespace trireme
