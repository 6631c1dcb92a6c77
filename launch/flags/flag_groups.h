#pragma once
/// The groups of the table of flags (flags.h), and the constants and functions that they share.

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {

// Sets of commands, for Flag::commands.
constexpr unsigned kGenerate = static_cast<unsigned>(Command::kGenerate);
constexpr unsigned kTokenize = static_cast<unsigned>(Command::kTokenize);
constexpr unsigned kScore = static_cast<unsigned>(Command::kScore);
constexpr unsigned kBench = static_cast<unsigned>(Command::kBench);
constexpr unsigned kBatch = static_cast<unsigned>(Command::kBatch);
constexpr unsigned kChat = static_cast<unsigned>(Command::kChat);
constexpr unsigned kEvaluate = static_cast<unsigned>(Command::kEvaluate);
constexpr unsigned kPipe = static_cast<unsigned>(Command::kPipe);
constexpr unsigned kContinue =
    kGenerate | kBatch | kChat | kPipe | kEvaluate;         // commands that continue texts for their own sake
constexpr unsigned kDecode = kContinue | kBench;            // commands that generate tokens
constexpr unsigned kForward = kContinue | kScore | kBench;  // commands that run the model
constexpr unsigned kPlan = static_cast<unsigned>(Command::kPlan);
constexpr unsigned kDoctor = static_cast<unsigned>(Command::kDoctor);
constexpr unsigned kConvert = static_cast<unsigned>(Command::kConvert);
constexpr unsigned kShaped = kForward | kPlan;  // commands that allocate or plan memory
constexpr unsigned kReport = static_cast<unsigned>(Command::kReport);
constexpr unsigned kEvery =
    kGenerate | kTokenize | kScore | kPlan | kDoctor | kBench | kBatch | kConvert | kReport | kChat | kPipe | kEvaluate;
constexpr unsigned kPlaced = kForward | kDoctor;           // commands that run on a device
constexpr unsigned kModel = kEvery & ~kDoctor & ~kReport;  // commands that require --model
constexpr unsigned kText = kForward | kTokenize;           // commands that read texts
constexpr unsigned kEncode = kText | kConvert;             // commands that may tokenise texts
constexpr unsigned kPrompted =
    kText & ~kBatch & ~kChat & ~kPipe & ~kEvaluate;  // commands whose texts are named by flags

constexpr int64_t kMostTokens = int64_t{1} << 24;  // more context than any model has
constexpr int64_t kMostIds = int64_t{1} << 21;     // more vocabulary than any model has

// Each returns the flags under one heading of --help.
FlagGroup prompt_flags();
FlagGroup continuation_flags();
FlagGroup sampling_flags();
FlagGroup precision_flags();
FlagGroup kv_flags();
FlagGroup eviction_flags();
FlagGroup sharing_flags();
FlagGroup speculation_flags();
FlagGroup machine_flags();
FlagGroup snapshot_flags();
FlagGroup bench_flags();
FlagGroup data_flags();
FlagGroup batch_flags();
FlagGroup score_flags();
FlagGroup evaluate_flags();
FlagGroup output_flags();

/// Reads a value of --kv-on-chip: returns a number of layers, PlanInput::kAuto ("auto") or kAll ("all"). Errors:
/// Exit::kConfig.
int64_t layers_on_chip(const Setting& s);
/// Reads a value of --spec into o.spec. Errors: Exit::kConfig.
void set_spec(Options& o, const Setting& s);

/// Returns a number in decimal, for Flag::show; a real number with the fewest digits that read back as the same one.
std::string shown(int64_t number);
std::string shown(uint64_t number);
std::string shown(double number);
/// The parts of a list with commas. Errors: Exit::kConfig for an empty part.
std::vector<Setting> parts_of(const Setting& s);
/// The list of these parts.
std::string joined(const std::vector<std::string>& parts);
inline std::string on_off(bool b) {
    return b ? "on" : "off";
}

}  // namespace trireme
