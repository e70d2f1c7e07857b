// How busy GPUs are and how much of their memory is in use, as NVML says it: asked every now and
// then, and summed up.
//
// On one thread at a time; what NVML does in a call may take long when a GPU is in trouble.
#pragma once

#include "hosts/nvml.hpp"
#include "model/counters.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class NvmlLibrary;

class NvmlWatch {
 public:
  // Of GPUs and MIG devices with these UUIDs; null where NVML, or all of them, are not there.
  static std::unique_ptr<NvmlWatch> open(const std::vector<std::string>& uuids,
                                         const std::string& library = kNvmlLibrary);
  ~NvmlWatch();
  NvmlWatch(const NvmlWatch&) = delete;
  NvmlWatch& operator=(const NvmlWatch&) = delete;

  void look();
  // By then, in the order of the UUIDs.
  const std::vector<GpuUse>& uses() const { return uses_; }

 private:
  explicit NvmlWatch(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
  std::vector<void*> devices_;  // NVML's handles, of uses_
  std::vector<GpuUse> uses_;
};

}  // namespace hvdrun
