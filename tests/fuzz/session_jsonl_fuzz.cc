// A conversation's turns: what is accepted is a text a turn, and says where it stands.

#include "launch/commands/session_turns.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::string_view text = fuzz::text_of(data, size);
        size_t bytes = 0;
        for (const SessionTurn& turn : parse_session(text, "turns.jsonl")) {
            fuzz::expect(turn.where.starts_with("turns.jsonl:"), "a turn from nowhere");
            bytes += turn.text.size();
        }
        // "USER: ", "\n\nASSISTANT: " around a turn of a list, which takes three bytes itself.
        fuzz::expect(bytes <= 20 * size, "turns of more than there is");
    });
}
