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
                 "tokens that a layer with s in its map sees: W (sliding_window, including its own), or W+1, as "
                 "models trained with FlashAttention 2",
                 [](O& o, const S& s) {
                     o.wide_window = s.one_of({"W", "W+1"}) == 1;
                 },
                 [](const O& o) { return std::string(o.wide_window ? "W+1" : "W"); }},
                {"layer-map",
                 {"--layer-map"},
                 kShaped | kConvert,
                 "MAP",
                 "the owner layer that each layer reads, for example 0_2_2_3; a suffix s: sliding window",
                 [](O& o, const S& s) { o.layer_map = s.word(); },
                 [](const O& o) { return o.layer_map; },
                 "the checkpoint's"},
                {"average",
                 {"--average"},
                 kConvert,
                 "",
                 "an owner's KV weights become the mean over all layers that read it",
                 [](O& o, const S& s) { o.average = s.on(); },
                 [](const O& o) { return on_off(o.average); }},
                {"passes",
                 {"--passes"},
                 kForward,
                 "config|N|exact|auto",
                 "passes of a prompt over layers that read a later layer; config: as trained; exact: until "
                 "nothing changes; auto: until changes are below --passes-tolerance",
                 set_passes,
                 show_passes},
                {"passes-tolerance",
                 {"--passes-tolerance"},
                 kForward,
                 "X",
                 "with --passes auto: the largest change of a key or value between passes",
                 [](O& o, const S& s) { o.passes.tolerance = s.real(0, 1e6); },
                 [](const O& o) { return shown(o.passes.tolerance); }},
            }};
}

}  // namespace trireme
