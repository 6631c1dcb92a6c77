// Turns of a conversation: an accepted turn has a text and its place in the file.

#include "launch/commands/session_turns.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const std::string_view text = fuzz::text_of(data, size);
        size_t bytes = 0;
        for (const SessionTurn& turn : parse_session(text, "turns.jsonl", /*chat=*/false)) {
            fuzz::expect(turn.where.starts_with("turns.jsonl:"), "a turn from nowhere");
            bytes += turn.text.size();
        }
        // A turn of a list takes three bytes itself, and gets "USER: " and "\n\nASSISTANT: " around it.
        fuzz::expect(bytes <= 20 * size, "turns of more than there is");
    });
}
