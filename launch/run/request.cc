#include "launch/run/request.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "launch/run/prompt.h"

namespace trireme {
namespace {

std::vector<int32_t> share_ids(const RankGroup& rank_group, std::vector<int32_t> ids) {
    std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
    rank_group.comm().broadcast(bytes);
    ids.resize(bytes.size() / sizeof(int32_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
}

}  // namespace

int64_t positions_of(int64_t prompt, int64_t n_predict, int64_t longest) {
    return n_predict < 0 ? longest : std::min(longest, prompt + n_predict);
}

Request read_request(const Start& start, const RankGroup& rank_group, const Engine& engine) {
    const Options& o = start.call.options;
    const Command command = *start.call.command;
    const Checkpoint& files = engine.checkpoint();
    const int64_t longest = engine.longest_context();
    Request request;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        Prompt prompt = read_prompt(o, files.tokenizer.get(), waiting);
        request.ids = checked_ids(prompt.ids, files.config().vocab, longest, command);
        request.text = std::move(prompt.text);
    });
    request.ids = share_ids(rank_group, std::move(request.ids));
    const auto prompt = static_cast<int64_t>(request.ids.size());
    request.positions = longest;
    if (command == Command::kScore) request.positions = prompt;
    if (command == Command::kGenerate) request.positions = positions_of(prompt, o.n_predict, longest);
    return request;
}

}  // namespace trireme
