// The flags for layers that read the keys and values of other layers.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr int64_t kMostPasses = int64_t{1} << 24;

void set_passes(O& o, const S& s) {
    o.passes.how = Passes::How::kFixed;
    if (parse_integer(s.text)) {
        o.passes.n = s.integer(1, kMostPasses);
        return;
    }
    constexpr std::array kHow = {Passes::How::kConfig, Passes::How::kExact, Passes::How::kAuto};
    o.passes.how = kHow[s.one_of({"config", "exact", "auto"})];
}
std::string show_passes(const O& o) {
    switch (o.passes.how) {
        case Passes::How::kFixed:
            return shown(o.passes.n);
        case Passes::How::kExact:
            return "exact";
        case Passes::How::kAuto:
            return "auto";
        default:
            return "config";
    }
}

}  // namespace

FlagGroup sharing_flags() {
    return {"Layers that share keys and values",
            {
                {"layer-window",
                 {"--layer-window"},
                 kShaped,
                 "W|W+1",
                 "tokens that a layer with s in its map sees, of the sliding window W of its config: itself among W, "
                 "as LCKV's "
                 "eager and sdpa code has it, or one more, as models that were trained with FlashAttention 2 saw them",
                 [](O& o, const S& s) {
                     o.wide_window = s.one_of({"W", "W+1"}) == 1;
                 },
                 [](const O& o) { return std::string(o.wide_window ? "W+1" : "W"); }},
                {"layer-map",
                 {"--layer-map"},
                 kShaped | kConvert,
                 "MAP",
                 "the layer whose keys and values each layer reads, as 0_2_2_3; with an s behind it the layer sees a "
                 "sliding window",
                 [](O& o, const S& s) { o.layer_map = s.word(); },
                 [](const O& o) { return o.layer_map; },
                 "the checkpoint's"},
                {"average",
                 {"--average"},
                 kConvert,
                 "",
                 "an owner's keys and values get the mean of the weights of all layers that read it, not its own",
                 [](O& o, const S& s) { o.average = s.on(); },
                 [](const O& o) { return on_off(o.average); }},
                {"passes",
                 {"--passes"},
                 kForward,
                 "config|N|exact|auto",
                 "how often a prompt passes over layers that read later ones, at most once a token; config: as the "
                 "checkpoint was trained; exact: until nothing changes; auto: until changes are below "
                 "--passes-tolerance",
                 set_passes,
                 show_passes},
                {"passes-tolerance",
                 {"--passes-tolerance"},
                 kForward,
                 "X",
                 "with --passes auto: the largest change of an element of keys and values from pass to pass",
                 [](O& o, const S& s) { o.passes.tolerance = s.real(0, 1e6); },
                 [](const O& o) { return shown(o.passes.tolerance); }},
            }};
}

}  // namespace trireme
