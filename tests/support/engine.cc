#include "tests/support/engine.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "dist/self_comm.h"
#include "dist/staged_comm.h"
#include "tests/support/golden.h"
#include "tests/support/ranks.h"

namespace trireme::test {

std::unique_ptr<Comm> comm_of(Comm& comm, Device& device) {
    if (device.backend() == "cpu") return nullptr;
    if (comm.size() > 1) return std::make_unique<StagedComm>(comm, device);
    return comm.name() == std::string_view("threads") ? std::make_unique<SelfComm>() : nullptr;
}

Engine::Engine(const std::filesystem::path& path, const EngineOptions& options, Comm& comm, int threads,
               const std::string& device)
    : Engine(open_model(path), options, comm, threads, device) {}

Engine::Engine(std::unique_ptr<WeightSource> source, const EngineOptions& options, Comm& comm, int threads,
               const std::string& device)
    : device_(open_device(device, {.threads = threads})),
      own_comm_(comm_of(comm, *device_)),
      comm_(own_comm_ ? *own_comm_ : comm),
      source_(std::move(source)),
      weights_(std::make_unique<Weights>(
          *device_, *source_, make_shard(source_->config(), comm_.rank(), comm_.size()),
          options.blocks ? WeightFormat(*source_, options.activations, device != "cpu") : WeightFormat(options.weights),
          Progress{}, options.context)),
      model_(std::make_unique<Level>(*device_, comm_, *weights_, options.level())) {}

std::vector<float> Engine::prefill_logits(std::span<const int32_t> ids) {
    std::vector<float> all;
    model_->prefill(0, ids, {}, [&](int64_t, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = 0; r < m.rows; ++r) all.insert(all.end(), m.row(r), m.row(r) + m.cols);
    });
    return all;
}

std::vector<float> Engine::step(int32_t id) {
    const std::array<Row, 1> row = {Row{.token = id, .position = static_cast<int32_t>(model_->length())}};
    constexpr std::array<int32_t, 1> kFirst = {0};
    model_->forward(row);
    model_->keep(0, kFirst);
    const Matrix<float> m = model_->logits().host().as<float>();
    return {m.row(0), m.row(0) + m.cols};
}

Greedy greedy(const std::string& model, int ranks, int threads, const std::string& device,
              const EngineOptions& options) {
    Greedy run;
    run_ranks(ranks, [&](Comm& comm) {
        Engine engine(data_path(model), options, comm, threads, device);
        std::vector<int32_t> prompt(33);
        for (size_t i = 0; i < prompt.size(); ++i) {
            prompt[i] = static_cast<int32_t>((i * 37 + 11) % static_cast<size_t>(engine->config().vocab));
        }
        Greedy mine;
        mine.logits = engine.prefill_logits(prompt);
        std::vector<float> last(mine.logits.end() - engine->config().vocab, mine.logits.end());
        for (int i = 0; i < 24; ++i) {
            const auto best = std::max_element(last.begin(), last.end()) - last.begin();
            mine.tokens.push_back(static_cast<int32_t>(best));
            last = engine.step(mine.tokens.back());
        }
        if (comm.rank() == 0) run = mine;
    });
    return run;
}

}  // namespace trireme::test
