// Which GPUs a CUDA program started here would see, in CUDA's order: a pure function of
// CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and what NVML says, without CUDA.
//
// CUDA_VISIBLE_DEVICES, when set, decides. Its rules are those of the CUDA Programming Guide, "CUDA
// Environment Variables": entries are ordinals, GPU UUIDs as nvidia-smi -L prints them, of which a
// beginning that no other GPU shares is enough, or MIG devices (MIG-UUID, or in the older form
// MIG-GPU-UUID/instance/compute instance); CUDA stops at the first entry that names no device, so
// that an empty value, -1 and NoDevFiles all mean none. Not in the guide, but what drivers do: the
// first entry fixes the form of all that follow, an ordinal is the number that its entry begins
// with, and a device that is named twice leaves none visible.
//
// When it is unset NVML lists the devices. NVML counts by PCI address, CUDA fastest first unless
// CUDA_DEVICE_ORDER=PCI_BUS_ID; so an ordinal can be matched with a device only under that setting
// or when all GPUs are of one kind. docs/decisions/0005-gpus-without-cuda.md has the consequences.
#pragma once

#include "model/placement.hpp"
#include "resources/nvml.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct GpuList {
  std::vector<Gpu> gpus;    // numa_node is left open: NVML does not know it
  bool needs_list = false;  // see HostInventory::gpus_need_list
  std::string source;
  std::vector<std::string> notes;
};

// Whether CUDA_VISIBLE_DEVICES names a device that NVML could tell about; without one (it is empty,
// -1, …) there is no need to open NVML.
bool names_devices(const std::optional<std::string>& cuda_visible_devices);

GpuList visible_gpus(const std::optional<std::string>& cuda_visible_devices, bool pci_bus_order,
                     const NvmlScan& nvml);

}  // namespace hvdrun
