#include "launch/run/decode_run.h"

#include "launch/run/agreed_status.h"

namespace trireme {

bool DecodeRun::round(std::span<const int32_t> tokens) {
    int own = 0;
    for (const RoundObserver& o : observers_) {
        if (o.round) o.round(tokens);
    }
    for (const RoundObserver& o : observers_) {
        if (own == 0 && o.status) own = o.status();
    }
    status_ = agreed_status(rank_group_, own, tokens, digest_());
    for (const RoundObserver& o : observers_) {
        if (o.agreed) status_ = o.agreed(tokens.size(), status_);
    }
    return status_ != 0;
}

void DecodeRun::prefill() {
    status_ = agreed_status(rank_group_, 0, {}, 0);
    if (status_ != 0) throw Interrupted{};
}

}  // namespace trireme
