#pragma once
/// What every implementation of Comm has to do: one list of cases, run on each.

#include <span>

#include "dist/comm.h"

namespace trireme::test {

struct ContractCase {
    const char* name;
    void (*run)(Comm& comm);  // on every rank at once
};

std::span<const ContractCase> contract();

}  // namespace trireme::test
