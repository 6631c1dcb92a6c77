#!/usr/bin/env bash
# The tests labelled slow, of the release build: distributions by counting, rounds that end early, injected faults,
# records, commands of the documents, bench programs.
#   tests/slow.sh
# Last line: "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
source tests/steps.sh
prepare
require build release trireme_program slow_tests
run_tests release --label-regex '^slow$'
finish
