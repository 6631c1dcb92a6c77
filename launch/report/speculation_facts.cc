#include "launch/report/speculation_facts.h"

namespace trireme {

nlohmann::ordered_json speculation_facts(const std::string& chain, const SpeculationStats& s) {
    using OrderedJson = nlohmann::ordered_json;
    return {{"chain", chain},
            {"rounds", s.rounds},
            {"proposed", s.proposed},
            {"accepted", s.accepted},
            {"accept_rate", s.accept_rate()},
            {"accept_len", s.accept_len()},
            {"alpha", s.alpha() ? OrderedJson(*s.alpha()) : OrderedJson()},
            {"draft_ms", s.draft_ms()},
            {"verify_ms", s.verify_ms()}};
}

}  // namespace trireme
