// Requests of a batch: an accepted one has a prompt, and settings that every run can use.

#include "launch/commands/batch_requests.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

constexpr int64_t kVocab = 1000, kContext = 64;

/// A model without weights; ids are compared with its vocabulary.
class NoWeights final : public WeightSource {
  public:
    NoWeights() { config_.vocab = kVocab; }

  private:
    void do_read(size_t, int64_t, int64_t, const HostTensor&) const override {}
};

void try_request(const BatchLine& line) {
    static const Checkpoint files = [] {
        Checkpoint c;
        c.source = std::make_unique<NoWeights>();
        return c;
    }();
    Options run;
    run.stop = {"of the run"};
    BatchRequest request = {.index = 0, .ids = {}, .settings = line.settings};
    const Options own = request.options(run);
    fuzz::expect(!own.stop.empty(), "a request without the run's stops");
    for (const std::string& stop : own.stop) fuzz::expect(!stop.empty(), "an empty stop");
    fuzz::expect(line.text.find('\n') == std::string::npos, "a request of two lines");
    fuzz::expect(Json::parse(line.text) == line.object, "a line that is not its request");
    if (!line.object.contains("input_ids") || line.object.at("input_ids").is_null()) return;
    request.ids = prompt_of(line, own, files, kContext);
    fuzz::expect(!request.ids.empty() && request.tokens() < kContext, "as many ids as the context");
    for (const int32_t id : request.ids) fuzz::expect(id >= 0 && id < kVocab, "an id outside the vocabulary");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::vector<BatchLine> lines = parse_batch_lines(fuzz::text_of(data, size), "requests.jsonl", {});
        for (const BatchLine& line : lines) {
            fuzz::run([&] { try_request(line); });
            fuzz::run([&] { line.reference("summary_gt"); });
        }
        const std::vector<BatchLine> first =
            parse_batch_lines(fuzz::text_of(data, size), "requests.jsonl", {.limit = 1});
        fuzz::expect(first.size() == std::min<size_t>(1, lines.size()), "a limit that does not hold");
    });
}
