#include "launch/run/snapshot/snapshots.h"

#include <csignal>

#include "launch/run/agreed_status.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

constexpr double kAssumedRate = 200e6;  // bytes/s, before the first snapshot is written
constexpr double kFixed_s = 0.05;       // for names and metadata

}  // namespace

Snapshots::Snapshots(const Options& o, const RankGroup& rank_group, Engine& engine, Of of)
    : of_(std::move(of)),
      writer_(o.save_kv, o.load_kv == o.save_kv ? IfThere::kReplace : o.old_outputs(), rank_group, engine, of_.known,
              engine.settings()),
      rank_group_(rank_group),
      model_(engine.model()),
      every_(o.checkpoint_every),
      grace_s_(o.grace_s) {}

void Snapshots::write() {
    const uint64_t begin = trace::now();
    const SnapshotText text = of_.text();
    bytes_ = static_cast<double>(writer_.write(text, of_.costs ? of_.costs() : SpecCosts()));
    const double s = static_cast<double>(trace::now() - begin) * 1e-9;
    bytes_per_s_ = bytes_ / std::max(s - kFixed_s, 1e-3);
    since_ = 0;
    missing_.reset();
    log::info("snapshot {}: {} tokens, {:.1f} MB in {:.2f} s", writer_.path(),
              text.prompt.size() + text.generated.size(), bytes_ * 1e-6, s);
}

double Snapshots::expected_s() const {
    const double bytes = bytes_ > 0 ? bytes_ : static_cast<double>(model_.cache().bytes_of(model_.length()));
    return kFixed_s + bytes / (bytes_per_s_ > 0 ? bytes_per_s_ : kAssumedRate);
}

int Snapshots::round(size_t tokens, int agreed) {
    since_ += static_cast<int64_t>(tokens);
    if (agreed == kSnapshotAsked) {
        write();
        return kSaved;
    }
    if (agreed == 128 + SIGTERM) {
        // All ranks use rank 0's measurement, so that they decide alike.
        const double expected = rank_group_.comm().gather_values(expected_s())[0];
        if (expected > grace_s_) {
            log::warn(
                "SIGTERM: a snapshot would take {:.1f} s of the {} s that are left (--grace): the last one stands",
                expected, grace_s_);
            return agreed;
        }
        write();
        return kSaved;
    }
    if (agreed != 0 || every_ == 0 || since_ < every_) return agreed;
    try {
        write();
    } catch (const AgreedError& e) {
        since_ = 0;
        missing_ = e;
        log::warn("no snapshot: {}; the last complete one remains, and the run continues", e.what());
    }
    return agreed;
}

void Snapshots::require_last() const {
    if (missing_) throw AgreedError(missing_->code(), fmt::format("no snapshot of the end: {}", missing_->what()));
}

}  // namespace trireme
