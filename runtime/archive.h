#pragma once
/// Archive: the interface of snapshot files to objects. One state() function of an object both writes and restores it:
///
///     void state(Archive& ar) { ar.section("window"); ar.value(tokens_); ar.memory(stream, tiles_); }
///
/// launch/run/snapshot/ calls state(), with an archive of model/files/store/archive.h.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
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
    /// Returns true if this archive restores objects, false if it writes them.
    virtual bool loads() const = 0;

    /// Begins a named section. A restoring archive must have the same name here. Errors: Exit::kData.
    void section(std::string_view name) {
        std::vector<char> there(name.begin(), name.end());
        values(there);
        require(std::string_view(there.data(), there.size()) == name, Exit::kData,
                "{}: '{}' was expected, and '{}' is there: it is of another chain", where(), name,
                std::string_view(there.data(), std::min<size_t>(there.size(), 40)));
    }
    /// Writes the bytes of `x`, or overwrites them.
    template <class T>
    void value(T& x) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes(std::as_writable_bytes(std::span(&x, 1)));
    }
    /// Writes the length and the elements of `v`, or replaces both. Restoring keeps the capacity of `v` if it suffices.
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
    /// Writes `x`, or checks that the archive holds the bytes of `x`: for values that no resumed run may change.
    /// Errors: Exit::kData, naming `what`.
    template <class T>
    void same(const T& x, std::string_view what) {
        T there = x;
        value(there);
        require(std::memcmp(&there, &x, sizeof x) == 0, Exit::kData, "{}: {} differs from the snapshot's", where(),
                what);
    }
    /// Writes or restores contiguous device memory that `stream` uses. A writing archive may read it after this call,
    /// so it must not change until the archive is written. A restoring archive fills it before later work of `stream`.
    virtual void memory(Stream& stream, const Tensor& tensor) = 0;
    /// Like memory() of a Tensor, for host memory that `stream` copies to or from.
    virtual void memory(Stream& stream, const HostTensor& tensor) = 0;
    /// Writes `bytes` bytes that fill(to) produces in host memory, later, from memory that must not change until then.
    /// A loading archive restores them by memory(). Errors: Exit::kInternal if the archive loads.
    virtual void produce(size_t bytes, std::function<void(void* to)> fill) = 0;

  protected:
    virtual void bytes(std::span<std::byte> bytes) = 0;  // writes `bytes`, or overwrites them
    virtual uint64_t left() const = 0;                   // bytes that bytes() can still restore; 0 if it writes
    virtual std::string_view where() const = 0;          // the file, for messages
};

}  // namespace trireme
