#pragma once
/// The HDF5 library as this project uses it: quiet, without plugins, and only on data that this program made.

#include <utility>

#include <hdf5.h>

#include "runtime/error.h"

namespace trireme {

/// An HDF5 identifier with the function that closes it.
class Hdf5Id {
  public:
    using Close = herr_t (*)(hid_t);

    Hdf5Id() = default;
    Hdf5Id(hid_t id, Close close, const char* what) : id_(id), close_(close) {
        check(id >= 0, "HDF5: {} failed", what);
    }
    Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
    Hdf5Id& operator=(Hdf5Id&& other) noexcept {
        std::swap(id_, other.id_);
        std::swap(close_, other.close_);
        return *this;
    }
    ~Hdf5Id() {
        if (id_ >= 0) close_(id_);
    }
    operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): an argument of every call

  private:
    hid_t id_ = -1;
    Close close_ = nullptr;
};

inline void hdf5_ok(herr_t status, const char* what) {
    check(status >= 0, "HDF5: {} failed", what);
}

/// Call this before anything else of the library: it keeps messages off stderr and turns plugins off.
inline void configure_hdf5() {
    static const bool done = [] {
        hdf5_ok(H5open(), "H5open");
        hdf5_ok(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
        hdf5_ok(H5PLset_loading_state(0), "H5PLset_loading_state");
        return true;
    }();
    (void)done;
}

}  // namespace trireme
