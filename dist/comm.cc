#include "dist/comm.h"

#include <algorithm>
#include <cstring>

#include "runtime/index.h"

namespace trireme {

void Comm::turn(Stream& stream) {
    if (stream_ != nullptr && stream_ != &stream && streams_share()) stream.wait(stream_->record(), "wait_for_level");
    stream_ = &stream;
}

void Comm::leave(const Stream& stream) noexcept {
    if (stream_ == &stream) stream_ = nullptr;
    do_leave(stream);
}

void Comm::all_reduce(Stream& stream, const Tensor& x) {
    check(x.dtype() == DType::kF32 && x.contiguous(), "all_reduce: x is {} {}, want f32 and contiguous", x.shape(),
          name_of(x.dtype()));
    if (x.bytes() != 0) do_all_reduce(stream, x);
}

void Comm::all_gather(Stream& stream, const Tensor& out, const Tensor& part) {
    const Shape& p = part.shape();
    bool fits = out.dtype() == part.dtype() && out.shape().rank() == p.rank() + 1 && out.dim(0) == size();
    for (int i = 0; fits && i < p.rank(); ++i) fits = out.dim(i + 1) == p[i];
    check(fits, "all_gather: out is {} {}, part is {} {}, {} ranks", out.shape(), name_of(out.dtype()), p,
          name_of(part.dtype()), size());
    check(out.contiguous() && part.contiguous(), "all_gather: out {} and part {} must be contiguous", out.shape(), p);
    if (part.bytes() != 0) do_all_gather(stream, out, part);
}

void Comm::broadcast(std::string& bytes, int root) {
    check(root >= 0 && root < size(), "broadcast: no rank {} among {}", root, size());
    auto all = gather(Call::kBroadcast, rank() == root ? bytes : std::string());
    bytes = std::move(all[index(root)]);
}

std::vector<std::string> Comm::gather_bytes(const std::string& mine) {
    return gather(Call::kGather, mine);
}

void Comm::barrier() {
    gather(Call::kBarrier, {});
}

Exit Comm::agree(Exit status) {
    int worst = static_cast<int>(Exit::kOk);
    for (const std::string& s : gather(Call::kAgree, std::to_string(static_cast<int>(status)))) {
        worst = std::max(worst, std::stoi(s));
    }
    return static_cast<Exit>(worst);
}

std::vector<std::string> Comm::gather(Call call, const std::string& mine) {
    static constexpr const char* kNames[] = {"broadcast", "gather_bytes", "barrier", "agree"};
    std::string message(1 + sizeof(calls_), '\0');
    message[0] = static_cast<char>(call);
    std::memcpy(message.data() + 1, &calls_, sizeof(calls_));
    const std::string header = message;
    ++calls_;

    std::vector<std::string> all = do_gather(message += mine);

    const auto describe = [](const std::string& s) {
        uint64_t n = 0;
        std::memcpy(&n, s.data() + 1, sizeof(n));
        return fmt::format("{} (control call {})", kNames[index(s[0])], n);
    };
    for (size_t r = 1; r < all.size(); ++r) {
        if (all[r].compare(0, header.size(), all[0], 0, header.size()) != 0) {
            throw AgreedError(Exit::kInternal, fmt::format("ranks are in different calls: rank 0 in {}, rank {} in {}",
                                                           describe(all[0]), r, describe(all[r])));
        }
    }
    for (std::string& s : all) s.erase(0, header.size());
    return all;
}

}  // namespace trireme
