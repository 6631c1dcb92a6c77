#pragma once
/// Pages of anonymous memory.

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

/// At least `bytes`, 4 KiB aligned, zeroed; on 2 MiB pages where Linux has them. Null: it has no room.
void* map_pages(size_t bytes) noexcept;
void unmap_pages(void* data, size_t bytes) noexcept;
/// What map_pages takes for `bytes`.
size_t page_bytes(size_t bytes);

/// Touches the pages now, several threads at once (a thread zeroes some 2 GB a second), on the memory node `node`
/// while that has room; -1: wherever the threads run.
void touch_pages(void* data, size_t bytes, int node, int threads);

/// The memory node that a PCI device ("0000:01:00.0") hangs on; -1: the machine has one only, or does not say.
/// `root` is where /sys is: "/", or a test's folder.
int node_of_pci(const std::string& bus_id, const std::filesystem::path& root = "/");

}  // namespace trireme
