#pragma once
/// The contract of Comm: one list of cases, run on every implementation.

#include <span>

#include "dist/comm.h"

namespace trireme::test {

struct ContractCase {
    const char* name;
    void (*run)(Comm& comm);  // on every rank at once
};

std::span<const ContractCase> contract();

}  // namespace trireme::test
