// How GPUs are used, from NVML's samples: averages and peaks of load, memory, temperature and
// power, why clocks were lowered, and which processes compute.
//
// For one thread at a time. A call into NVML can take long if a GPU has a fault. Nothing returns
// errors: what NVML does not answer, because the driver is too old, the device does not have it or
// the user may not see it, has no value, and everything else does.
#pragma once

#include "model/report.hpp"
#include "resources/nvml.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class NvmlLibrary;

// A process that computes on a device. NVML numbers processes as the PID namespace of the caller
// does. Older drivers use the host's numbers, or list nothing, in a container.
struct GpuProcess {
  int pid = 0;
  std::optional<std::uint64_t> memory_bytes;  // on that device
};

class NvmlWatch {
 public:
  // Watches the GPUs and MIG devices with these UUIDs. Returns null if NVML is missing, or has none
  // of them.
  static std::unique_ptr<NvmlWatch> open(const std::vector<std::string>& uuids,
                                         const std::string& library = kNvmlLibrary);
  ~NvmlWatch();
  NvmlWatch(const NvmlWatch&) = delete;
  NvmlWatch& operator=(const NvmlWatch&) = delete;

  // Takes one sample of each device.
  void look();
  // Returns averages and peaks of the samples so far, in the order of the UUIDs. UUIDs that NVML
  // does not know are left out.
  std::vector<GpuUse> uses() const;
  // Returns the processes of each device in the last sample, in the order of uses().
  const std::vector<std::vector<GpuProcess>>& processes() const { return processes_; }

 private:
  struct Device;
  explicit NvmlWatch(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
  std::vector<Device> devices_;
  std::vector<std::vector<GpuProcess>> processes_;
};

}  // namespace hvdrun
