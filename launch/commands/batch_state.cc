#include "launch/commands/batch_state.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson as_json(const RougeScore& s) {
    return {{"r", s.r}, {"p", s.p}, {"f", s.f}};
}

}  // namespace

BatchState open_books(const Options& o, const StillWaiting& waiting) {
    BatchState books;
    books.output = std::make_unique<BatchOutput>(o.output_path, o.force);
    const int64_t done = books.output->done();
    DataChoice choice = o.choice;
    if (choice.limit > 0) choice.limit = std::max(choice.limit, done);  // finished lines are compared
    if (o.prompt_from == PromptFrom::kData) {
        books.data = read_data(o, choice, waiting);
        books.lines = lines_of(std::exchange(books.data.texts, {}));
    } else {
        books.lines = read_batch_lines(o, choice, waiting);
    }
    books.output->require_of(books.lines);
    books.written = done;
    const auto there = static_cast<int64_t>(books.lines.size());
    books.wanted = o.choice.limit == 0 ? there : std::min(o.choice.limit, there);
    for (int64_t i = 0; i < books.wanted && !o.rouge.empty(); ++i) {
        const BatchLine& line = books.lines[static_cast<size_t>(i)];
        require(!line.openai, Exit::kConfig, "{}: --rouge compares results of batch's own form; leave it out",
                line.where);
        const std::string reference = line.reference(o.rouge);
        require(has_sentences(reference), Exit::kData, "{}: {} is empty, want the text that --rouge compares with",
                line.where, o.rouge);
        if (i < done) books.rouge.push_back(rouge(books.output->text(i), reference));
    }
    log::info("{} request{}, {} done before", books.wanted, books.wanted == 1 ? "" : "s", std::min(done, books.wanted));
    return books;
}

std::vector<BatchRequest> left_of(BatchState& books, const Options& o, const Engine& engine,
                                  const StillWaiting& waiting) {
    books.data.require_made_by(engine.checkpoint().tokenizer.get(), o.add_special);
    std::vector<BatchRequest> left;
    ChatRenderer chat(o.tokenizer_path());
    for (int64_t i = books.output->done(); i < books.wanted; ++i) {
        waiting();
        BatchLine& line = books.lines[static_cast<size_t>(i)];
        if (!line.bad.empty()) continue;
        try {
            left.push_back({.index = i,
                            .ids = prompt_of(line, o, engine.checkpoint(), chat, engine.longest_context()),
                            .settings = line.settings});
        } catch (const Error& e) {
            const bool of_request = e.code() == Exit::kData || e.code() == Exit::kConfig;
            if (!line.openai || !of_request) throw;
            line.bad = e.what();
        }
    }
    return left;
}

std::string line_of(BatchState& books, const Options& o, int64_t index, const Continuation& made, int64_t prompt_tokens,
                    double seconds) {
    const BatchLine& request = books.lines[static_cast<size_t>(index)];
    if (request.openai) {
        return openai_result(*request.openai, o.model, made, prompt_tokens, fingerprint_of(books.settings));
    }
    const auto dump = [](const OrderedJson& json) {
        return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    };
    const OrderedJson choice = {{"text", made.text}, {"finish_reason", finish_reason(made.stop)}};
    const OrderedJson result = {{"choices", OrderedJson::array({choice})},
                                {"request_time", seconds},
                                {"prompt_tokens", prompt_tokens},
                                {"completion_tokens", made.ids.size()}};
    OrderedJson settings = OrderedJson::object();
    for (const auto& [name, value] : books.settings) settings[name] = value;
    std::string line = fmt::format(R"({{"index":{},"request":{},"result":{},"settings":{})", index, request.text,
                                   dump(result), dump(settings));
    if (!o.rouge.empty()) {
        const Rouge& r = books.rouge.emplace_back(rouge(made.text, request.reference(o.rouge)));
        line +=
            fmt::format(R"(,"rouge":{})",
                        dump({{"rouge-1", as_json(r.one)}, {"rouge-2", as_json(r.two)}, {"rouge-l", as_json(r.l)}}));
    }
    return line + "}";
}

void append_bad(BatchState& books, int64_t end) {
    for (; books.written < end; ++books.written) {
        const BatchLine& line = books.lines[static_cast<size_t>(books.written)];
        if (line.bad.empty()) return;
        log::warn("{}; the request is not run", line.bad);
        books.output->append(openai_error(*line.openai, line.bad, fingerprint_of(books.settings)));
        ++books.failed;
    }
}

void append_result(BatchState& books, int64_t index, std::string line) {
    append_bad(books, index);
    check(books.written == index, "batch: the result of request {} after {} lines", index, books.written);
    books.output->append(std::move(line));
    ++books.written;
}

void log_rouge(const std::vector<Rouge>& all) {
    double one = 0, two = 0, l = 0;
    for (const Rouge& r : all) one += r.one.f, two += r.two.f, l += r.l.f;
    const auto n = static_cast<double>(all.size());
    log::info("rouge over {} texts: Rouge-1 {:.6f}, Rouge-2 {:.6f}, Rouge-l {:.6f} ({} empty)", all.size(), one / n,
              two / n, l / n, std::ranges::count_if(all, &Rouge::empty));
}

}  // namespace trireme
