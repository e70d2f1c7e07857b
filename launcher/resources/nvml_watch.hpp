// How busy GPUs are and how much of their memory is in use: averages and peaks of NVML's samples.
//
// For one thread at a time. A call into NVML can take long if a GPU has a fault. Nothing returns
// errors: a device that NVML does not answer for has no sample.
#pragma once

#include "model/report.hpp"
#include "resources/nvml.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class NvmlLibrary;

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
  const std::vector<GpuUse>& uses() const { return uses_; }

 private:
  explicit NvmlWatch(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
  std::vector<void*> devices_;  // NVML's handles, of uses_
  std::vector<GpuUse> uses_;
};

}  // namespace hvdrun
