#pragma once
/// Snapshot serialisation: one state() function of an object both writes and restores it:
///
///     void state(Archive& ar) { ar.section("window"); ar.value(tokens_); ar.memory(stream, tiles_); }

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/error.h"
#include "runtime/stream.h"

namespace trireme {

class Archive {
  public:
    virtual ~Archive() = default;
    virtual bool loads() const = 0;

    /// Begins a named section. An archive that is read must have the same name here. Errors: Exit::kData.
    void section(std::string_view name) {
        std::vector<char> there(name.begin(), name.end());
        values(there);
        require(std::string_view(there.data(), there.size()) == name, Exit::kData,
                "{}: '{}' was expected, and '{}' is there: it is of another chain", where(), name,
                std::string_view(there.data(), std::min<size_t>(there.size(), 40)));
    }
    template <class T>
    void value(T& x) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes(std::as_writable_bytes(std::span(&x, 1)));
    }
    /// Reading keeps the capacity of `v` if it suffices.
    template <class T>
    void values(std::vector<T>& v) {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
        uint64_t n = v.size();
        value(n);
        if (loads()) {
            require(n <= left() / sizeof(T), Exit::kData, "{}: {} values are announced", where(), n);
            v.resize(n);
        }
        bytes(std::as_writable_bytes(std::span(v)));
    }
    /// A value that a run never changes: an archive that is read must hold `x`. Errors: Exit::kData, naming `what`.
    template <class T>
    void same(const T& x, std::string_view what) {
        T there = x;
        value(there);
        require(std::memcmp(&there, &x, sizeof x) == 0, Exit::kData, "{}: {} differs from the snapshot's", where(),
                what);
    }
    /// Contiguous device memory, after earlier work of `stream`. A written archive may read it later, so it must not
    /// change meanwhile. A read archive restores it before later work of `stream`.
    virtual void memory(Stream& stream, const Tensor& tensor) = 0;
    /// Like memory() of a device, for host memory that `stream` copies to or from.
    virtual void memory(Stream& stream, const HostTensor& tensor) = 0;

  protected:
    virtual void bytes(std::span<std::byte> bytes) = 0;
    virtual uint64_t left() const = 0;  // bytes that can still be read
    virtual std::string_view where() const = 0;
};

}  // namespace trireme
