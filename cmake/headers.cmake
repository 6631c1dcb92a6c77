# Half of a file's compile time went into these headers: they are compiled once, for every library (the tests have their
# own list). Every file includes what it uses nevertheless: cmake -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON must build.
add_library(trireme_headers STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/headers.cc)
target_link_libraries(trireme_headers PRIVATE trireme_options fmt::fmt Threads::Threads nlohmann_json::nlohmann_json)
target_precompile_headers(trireme_headers PRIVATE
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory>
  <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>
  <fmt/format.h> <nlohmann/json.hpp>)
