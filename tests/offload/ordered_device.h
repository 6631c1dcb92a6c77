#pragma once
/// A CPU device that executes all work at once, in call order, and records which operations its streams have ordered.
/// Two accesses to the same bytes, one of them a write, are a race if neither is ordered after the other. Nothing
/// depends on time: a missing wait is always found if bytes depend on it.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/tile_coder.h"
#include "runtime/cpu/device.h"
#include "runtime/error.h"

namespace trireme::test {

/// Vector clocks: for each granule, the last write and the last read of every stream.
class Accesses {
  public:
    static constexpr size_t kStreams = 5, kGranule = 32;  // bytes
    using Clock = std::array<uint32_t, kStreams>;         // by stream: operations that have happened

    void add(const void* data, size_t bytes) {
        memory_.emplace(address(data), std::vector<Granule>((bytes + kGranule - 1) / kGranule));
    }
    void remove(const void* data) { memory_.erase(address(data)); }

    /// Records that operation `now[stream]` of a stream, which follows all operations in `now`, reads or writes.
    void access(size_t stream, const Clock& now, const void* data, size_t bytes, bool write, const char* what) {
        auto block = memory_.upper_bound(address(data));
        if (bytes == 0 || block == memory_.begin() || !race_.empty()) return;
        --block;
        const size_t first = (address(data) - block->first) / kGranule;
        const size_t end = (address(data) - block->first + bytes + kGranule - 1) / kGranule;
        if (first >= block->second.size()) return;  // not allocated by a device: only this stream uses it
        for (size_t g = first; g < std::min(end, block->second.size()); ++g) {
            Granule& x = block->second[g];
            if (x.written > now[x.writer]) found(what, "a write", x.writer);
            for (size_t s = 0; write && s < kStreams; ++s) {
                if (x.read[s] > now[s]) found(what, "a read", s);
            }
            if (write) {
                x.writer = static_cast<uint32_t>(stream);
                x.written = now[stream];
            } else {
                x.read[stream] = now[stream];
            }
        }
    }
    /// The first race; empty if there was none.
    const std::string& race() const { return race_; }

  private:
    struct Granule {
        uint32_t writer = 0, written = 0;
        Clock read{};
    };
    static uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }
    void found(const char* what, const char* other, size_t stream) {
        if (race_.empty()) race_ = fmt::format("{} does not wait for {} by stream {}", what, other, stream);
    }

    std::map<uintptr_t, std::vector<Granule>> memory_;
    std::string race_;
};

class OrderedStream final : public Stream {
  public:
    using Clock = Accesses::Clock;

    OrderedStream(const char* name, size_t number, Accesses& accesses, Clock& host)
        : name_(name), number_(number), accesses_(accesses), host_(host) {}

    /// next_operation() begins an operation; reads() and writes() report its accesses.
    void next_operation() {
        for (size_t s = 0; s < now_.size(); ++s) now_[s] = std::max(now_[s], host_[s]);
        ++now_[number_];
    }
    void reads(const void* data, size_t bytes, const char* what) {
        accesses_.access(number_, now_, data, bytes, /*write=*/false, what);
    }
    void writes(const void* data, size_t bytes, const char* what) {
        accesses_.access(number_, now_, data, bytes, /*write=*/true, what);
    }

    Event record() override {
        if (records_.empty() || records_.back() != now_) records_.push_back(now_);
        return {this, records_.size() - 1};
    }
    bool reached(const Event&) const override { return true; }
    void synchronize(const Event& event) override { learn(host_, event); }
    using Stream::synchronize;
    void emulate_link(double, double) override {}
    const char* name() const override { return name_; }

  protected:
    void do_copy(void* dst, const void* src, size_t bytes, const char* what) override {
        next_operation();
        reads(src, bytes, what);
        writes(dst, bytes, what);
        std::memcpy(dst, src, bytes);
    }
    void do_wait(const Event& event, const char*) override {
        if (event.stream != nullptr) learn(now_, event);
    }
    void do_call_host(const char*, size_t, const HostCall& call) override {
        next_operation();
        HostCall copy(call);
        copy.run(copy.closure.data());
    }

  private:
    static void learn(Clock& clock, const Event& event) {
        const Clock& then = static_cast<const OrderedStream*>(event.stream)->records_[event.ticket];
        for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], then[s]);
    }

    const char* name_;
    size_t number_;
    Accesses& accesses_;
    Clock& host_;
    Clock now_{};
    std::vector<Clock> records_;
};

class OrderedDevice final : public CpuDevice {
  public:
    OrderedDevice() : CpuDevice(1) {}

    void* allocate(Space space, size_t bytes) override {
        void* data = CpuDevice::allocate(space, bytes);
        accesses_.add(data, bytes);
        return data;
    }
    void release(Space space, void* data, size_t bytes) noexcept override {
        accesses_.remove(data);
        CpuDevice::release(space, data, bytes);
    }
    std::unique_ptr<Stream> make_stream(const char* name) override {
        check(streams_ < Accesses::kStreams, "a stream too many");
        return std::make_unique<OrderedStream>(name, streams_++, accesses_, host_);
    }
    /// Its streams run no CPU kernels, so it has a coder of its own.
    std::string_view backend() const override {
        [[maybe_unused]] static const bool once = (tile_coder_makers().add("ordered", make_coder), true);
        return "ordered";
    }
    const std::string& race() const { return accesses_.race(); }

  private:
    /// Reports what a coder accesses. Every third tile has no code.
    class Coder final : public TileCoder {
      public:
        Coder(OrderedStream& stream, const KvLayout& layout) : TileCoder(layout), stream_(stream) {}
        void encode(char* coded, uint32_t* counts, const char* plain, int64_t n) override {
            stream_.next_operation();
            stream_.reads(plain, static_cast<size_t>(n) * plain_bytes(), "kv_encode");
            stream_.writes(coded, static_cast<size_t>(n * code().bytes), "kv_encode");
            stream_.writes(counts, static_cast<size_t>(n) * sizeof *counts, "kv_encode");
            for (int64_t i = 0; i < n; ++i) counts[i] = ++tiles_ % 3 == 0 ? UINT32_MAX : 0;
        }
        void decode(char* plain, const char* coded, int64_t n) override {
            stream_.next_operation();
            stream_.reads(coded, static_cast<size_t>(n * code().bytes), "kv_decode");
            stream_.writes(plain, static_cast<size_t>(n) * plain_bytes(), "kv_decode");
        }

      private:
        OrderedStream& stream_;
        int64_t tiles_ = 0;
    };
    static std::unique_ptr<TileCoder> make_coder(Device&, Stream& stream, const KvLayout& layout) {
        return std::make_unique<Coder>(static_cast<OrderedStream&>(stream), layout);
    }

    Accesses accesses_;
    Accesses::Clock host_{};  // operations that the host has waited for
    size_t streams_ = 0;
};

}  // namespace trireme::test
