// This machine's GPUs, as NVIDIA's management library (NVML) reports them. hvdrun opens the library
// at run time, so it needs no driver to build or to run. Source: NVML API Reference, NVIDIA.
//
// For one thread at a time. The first call into the library attaches to every GPU: some ten
// milliseconds if the driver is resident (persistence mode), more otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// A part of a GPU that is used like a GPU (Multi-Instance GPU).
struct NvmlMigDevice {
  std::string uuid;  // "MIG-…"
  std::string name;
  std::uint64_t memory_bytes = 0;
};

struct NvmlGpu {
  std::string uuid;         // "GPU-…"
  std::string pci_address;  // "0000:3b:00.0", as in sysfs
  std::string name;
  std::uint64_t memory_bytes = 0;
  bool mig_enabled = false;
  std::vector<NvmlMigDevice> mig_devices;
};

struct NvmlScan {
  bool loaded = false;        // the library is there and has started
  std::string problem;        // why not; never empty then
  bool broken = false;        // the library is there, but fails: the user gets a note
  std::vector<NvmlGpu> gpus;  // in NVML's order: ascending PCI address
  std::vector<int> lost;      // indices of GPUs that have fallen off the bus
};

// Reads all GPUs. Never fails: a machine without a driver is an ordinary one, and NvmlScan::problem
// says what went wrong.
NvmlScan scan_nvml(const std::string& library = kNvmlLibrary);

}  // namespace hvdrun
