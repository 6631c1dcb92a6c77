#pragma once
/// The groups that the table of flags (flags.h) consists of, and constants that they share.

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {

constexpr unsigned kGenerate = static_cast<unsigned>(Command::kGenerate);
constexpr unsigned kTokenize = static_cast<unsigned>(Command::kTokenize);
constexpr unsigned kScore = static_cast<unsigned>(Command::kScore);
constexpr unsigned kBench = static_cast<unsigned>(Command::kBench);
constexpr unsigned kBatch = static_cast<unsigned>(Command::kBatch);
constexpr unsigned kContinue = kGenerate | kBatch;          // what continues texts for their own sake
constexpr unsigned kDecode = kContinue | kBench;            // what generates tokens
constexpr unsigned kForward = kContinue | kScore | kBench;  // what runs the model
constexpr unsigned kPlan = static_cast<unsigned>(Command::kPlan);
constexpr unsigned kDoctor = static_cast<unsigned>(Command::kDoctor);
constexpr unsigned kConvert = static_cast<unsigned>(Command::kConvert);
constexpr unsigned kShaped = kForward | kPlan;  // where memory is asked for, or would be
constexpr unsigned kReport = static_cast<unsigned>(Command::kReport);
constexpr unsigned kEvery = kGenerate | kTokenize | kScore | kPlan | kDoctor | kBench | kBatch | kConvert | kReport;
constexpr unsigned kPlaced = kForward | kDoctor;  // what runs on a device
constexpr unsigned kModel = kEvery & ~kDoctor & ~kReport;
constexpr unsigned kText = kForward | kTokenize;  // what reads texts
constexpr unsigned kEncode = kText | kConvert;    // what may make ids of them
constexpr unsigned kPrompted = kText & ~kBatch;   // that flags name

constexpr int64_t kMostTokens = int64_t{1} << 24;  // more context than any model has
constexpr int64_t kMostIds = int64_t{1} << 21;     // more vocabulary than any model has

FlagGroup prompt_flags();
FlagGroup continuation_flags();
FlagGroup sampling_flags();
FlagGroup precision_flags();
FlagGroup kv_flags();
FlagGroup bounded_flags();
FlagGroup sharing_flags();
FlagGroup speculation_flags();
FlagGroup machine_flags();
FlagGroup snapshot_flags();
FlagGroup bench_flags();
FlagGroup data_flags();
FlagGroup batch_flags();
FlagGroup score_flags();
FlagGroup output_flags();

/// Layers, "auto" or "all", as --kv-on-chip takes them.
int64_t layers_on_chip(const Setting& s);
/// The chain that a text names, as --spec takes it.
void set_spec(Options& o, const Setting& s);

/// In decimal; a real number with the fewest digits that read back as the same one.
std::string shown(int64_t number);
std::string shown(uint64_t number);
std::string shown(double number);
inline std::string on_off(bool b) {
    return b ? "on" : "off";
}

}  // namespace trireme
