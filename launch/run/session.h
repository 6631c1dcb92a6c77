#pragma once
/// What generate and score stand on: a device, a checkpoint, token ids, a model in memory.

#include <cstdint>
#include <memory>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/run/crew.h"
#include "launch/run/residency.h"
#include "launch/run/weight_type.h"
#include "model/files/weight_source.h"
#include "model/level.h"
#include "model/tokenizer/tokenizer.h"
#include "runtime/device.h"

namespace trireme {

struct Session {
    int threads = 0;  // of this rank
    std::unique_ptr<Device> device;
    std::unique_ptr<Comm> device_comm;  // what the model's ranks talk through; null: the crew's own
    std::unique_ptr<WeightSource> source;
    std::unique_ptr<Tokenizer> tokenizer;  // null where ids go in, ids come out, and the model has none
    std::vector<int32_t> eos;              // what ends a text, by the model's files and by the tokenizer's
    WeightType weight_type;
    std::vector<int32_t> ids;  // the prompt's, or those to be scored; the same on every rank
    ResidencyChoice residency;
    std::unique_ptr<Weights> weights;
    std::unique_ptr<Level> model;
    double load_ms = 0;  // files to memory
};

/// The device that --device names. `line` is for the log; empty: nothing to say. Control calls.
struct OpenedDevice {
    std::unique_ptr<Device> device;
    std::string line;
};
OpenedDevice open_run_device(const Start& start, const Crew& crew);

/// Checks everything that can be checked before the weights are read, then reads them. Ranks pass or leave together.
Session open_session(const Start& start, const Crew& crew);

/// The merged trace of all ranks as a file, if --trace asks for one. A control call.
void write_trace(const Options& options, const Crew& crew);

}  // namespace trireme
