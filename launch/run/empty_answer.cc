#include "launch/run/empty_answer.h"

#include "launch/run/once.h"
#include "model/tokenizer/chat_template.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {

void warn_of_empty_answer(const Options& o, const Continuation& answer) {
    if (answer.stop != StopReason::kEos || answer.ids.size() != 1 || !first_time("empty answer")) return;
    try {
        if (o.chat || !read_chat_template(o.tokenizer_path())) return;
    } catch (const Error& e) {  // a warning must not fail the run
        log::debug("chat template: {}", e.what());
        return;
    }
    log::warn(
        "the answer is empty: the first token ends the text. The model has a chat template: use "
        "--chat, or --ignore-eos");
}

}  // namespace trireme
