// What NVIDIA's management library says about this machine's GPUs. The library is opened at run
// time (dlopen), so hvdrun needs no driver to build or to run. Source: NVML API Reference, NVIDIA.
//
// The first call into the library attaches to every GPU: some ten milliseconds where the driver is
// resident (persistence mode), more where it is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

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
  bool loaded = false;        // the library is there and answered
  std::string problem;        // why it did not; never empty then
  bool broken = false;        // the library is there, but fails: worth a note to the user
  std::vector<NvmlGpu> gpus;  // in NVML's order: ascending PCI address
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Never fails: a machine without a driver is an ordinary one, and what went wrong is in the value.
NvmlScan scan_nvml(const std::string& library = kNvmlLibrary);

}  // namespace hvdrun
