#include <boost/version.hpp>
#include <fmt/core.h>
#include <hdf5.h>
#include <hwloc.h>
#include <mpi.h>
#include <nlohmann/json.hpp>
#include <spdlog/version.h>
#include <utf8proc.h>
#include <xxhash.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "generated/commit.h"
#include "launch/flags/help.h"

namespace trireme {
namespace {

// The first line of the library's version, up to the first comma: "Open MPI v4.1.4".
std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);  // legal before MPI_Init
    const std::string all(text, static_cast<size_t>(length));
    return all.substr(0, all.find_first_of(",\n"));
}

std::string hdf5_version() {
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
}

std::string pcre2_version() {
    char text[64] = {};
    pcre2_config(PCRE2_CONFIG_VERSION, text);
    return std::string(text).substr(0, std::string(text).find(' '));
}

std::string xxhash_version() {
    const unsigned v = XXH_versionNumber();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace

std::string_view version_number() {
    return TRIREME_VERSION;
}

std::string_view commit_date() {
    return TRIREME_COMMIT_DATE;
}

std::string version_text() {
    constexpr std::string_view compiler =
#if defined(__clang__)
        "clang " __clang_version__;
#else
        "GCC " __VERSION__;
#endif
    std::string text = fmt::format("trireme {} (commit {})\n", TRIREME_VERSION, TRIREME_COMMIT);
    const auto line = [&](std::string_view what, std::string_view version) {
        text += fmt::format("  {:<14} {}\n", what, version);
    };
    line("compiler", compiler);
    line("MPI", mpi_version());
    line("HDF5", hdf5_version());
    // pkg-config's version, also for sentencepiece: the headers have none, or only for code compiled for a SIMD target.
    line("Highway", TRIREME_HIGHWAY_VERSION);
    line("Boost", fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100));
    line("PCRE2", pcre2_version());
    line("utf8proc", utf8proc_version());
    line("sentencepiece", TRIREME_SENTENCEPIECE_VERSION);
    line("hwloc", HWLOC_VERSION);
    line("xxHash", xxhash_version());
    line("nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                      NLOHMANN_JSON_VERSION_PATCH));
    line("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
    line("spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH));
    return text;
}

}  // namespace trireme
