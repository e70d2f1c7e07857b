// How GPUs are used, from NVML's samples: averages and peaks of load, memory, temperature and
// power, why clocks were lowered, and which processes compute.
//
// For one thread at a time. A call into NVML can take long if a GPU has a fault. Nothing returns
// errors: what NVML does not answer, because the driver is too old, the device does not have it or
// the user may not see it, has no value, and everything else does. Older drivers number processes
// as the host does, or list none, in a container.
#pragma once

#include "gpus/nvidia/nvml.hpp"
#include "model/gpu_vendor.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class NvmlLibrary;

class NvmlWatch final : public GpuWatch {
 public:
  // Watches the GPUs and MIG devices with these UUIDs. Returns null if NVML is missing, or has none
  // of them.
  static std::unique_ptr<NvmlWatch> open(const std::vector<std::string>& uuids,
                                         const std::string& library = kNvmlLibrary);
  ~NvmlWatch() override;
  NvmlWatch(const NvmlWatch&) = delete;
  NvmlWatch& operator=(const NvmlWatch&) = delete;

  void look() override;
  std::vector<GpuUse> uses() const override;
  const std::vector<std::vector<GpuProcess>>& processes() const override { return processes_; }

 private:
  struct Device;
  explicit NvmlWatch(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
  std::vector<Device> devices_;
  std::vector<std::vector<GpuProcess>> processes_;
};

}  // namespace hvdrun
