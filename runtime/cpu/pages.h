#pragma once
/// Pages of anonymous memory: mapping, touching, NUMA nodes.

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

/// Maps `bytes` or more, zeroed and 4 KiB aligned, on 2 MiB pages where Linux has them. Returns null if it fails.
void* map_pages(size_t bytes) noexcept;
void unmap_pages(void* data, size_t bytes) noexcept;
/// Returns the bytes that map_pages() maps for `bytes`.
size_t page_bytes(size_t bytes);

/// Touches the pages now, with several threads (a thread zeroes about 2 GB per second). They are placed on memory node
/// `node` while that has room; -1: on the nodes of the threads.
void touch_pages(void* data, size_t bytes, int node, int threads);

/// Returns the memory node of a PCI device ("0000:01:00.0"); -1: the machine has only one, or does not report it.
/// `root` is where /sys is: "/", or a test's folder.
int node_of_pci(const std::string& bus_id, const std::filesystem::path& root = "/");

}  // namespace trireme
