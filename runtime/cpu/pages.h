#pragma once
/// Pages of anonymous memory, for CpuDevice and for the pinned memory of GPUs: mapping, zeroing, NUMA nodes.

#include <cstddef>
#include <filesystem>
#include <string>

namespace trireme {

/// Maps page_bytes(bytes), zeroed and 4 KiB aligned. From 32 MiB it requests 2 MiB pages. Returns null if it fails.
void* map_pages(size_t bytes) noexcept;
/// Unmaps all pages of a map_pages(bytes).
void unmap_pages(void* data, size_t bytes) noexcept;
/// Returns the bytes that map_pages() maps for `bytes`: whole pages of 4 KiB.
size_t page_bytes(size_t bytes);

/// Writes zeros to all `bytes` with several threads (each about 2 GB per second), so that Linux allocates their pages
/// now. They are placed on memory node `node` while that has room; -1: on the nodes of the threads.
void touch_pages(void* data, size_t bytes, int node, int threads);

/// Returns the memory node of a PCI device ("0000:01:00.0"); -1: the machine has only one, or does not report it.
/// `root` is where /sys is: "/", or a test's folder.
int node_of_pci(const std::string& bus_id, const std::filesystem::path& root = "/");

}  // namespace trireme
