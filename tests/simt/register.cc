// A program that is linked with this file accepts --device simt.

#include "tests/simt/kernels.h"

namespace trireme::simt {
namespace {

[[maybe_unused]] const bool kRegistered = (register_backend(), true);

}  // namespace
}  // namespace trireme::simt
