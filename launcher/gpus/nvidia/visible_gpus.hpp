// Which GPUs a CUDA program started here would see, in CUDA's order. Pure functions, for any
// thread, of CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and what NVML says, without CUDA. They cannot
// fail.
//
// If CUDA_VISIBLE_DEVICES is set, it decides. Its rules are those of the CUDA Programming Guide,
// "CUDA Environment Variables". Entries are ordinals, GPU UUIDs as nvidia-smi -L prints them, or
// MIG devices (MIG-UUID, or in the older form MIG-GPU-UUID/instance/compute instance). Of a GPU
// UUID a beginning that no other GPU shares is enough. CUDA stops at the first entry that names no
// device, so that an empty value, -1 and NoDevFiles all mean no GPU. Drivers have three more rules,
// which are not in the guide. The first entry fixes the form of all that follow. An ordinal is the
// number that its entry begins with. A device that is named twice leaves none visible.
//
// Otherwise NVML lists the devices. NVML orders them by PCI address, CUDA fastest first unless
// CUDA_DEVICE_ORDER=PCI_BUS_ID. So an ordinal can be matched with a device only with that setting
// or if all GPUs are of one kind. docs/decisions/0005-gpus-without-cuda.md has the consequences.
#pragma once

#include "gpus/nvidia/nvml.hpp"
#include "model/gpu_vendor.hpp"

#include <optional>
#include <string>

namespace hvdrun {

// Returns whether CUDA_VISIBLE_DEVICES names a device that NVML could describe. If it does not (it
// is empty, -1, …), there is no need to open NVML.
bool names_devices(const std::optional<std::string>& cuda_visible_devices);

// Returns the visible GPUs. A problem with NVML or the variable is a note in the list.
// `other_order`: CUDA_DEVICE_ORDER names another order, so that a list has UUIDs.
GpuList visible_gpus(const std::optional<std::string>& cuda_visible_devices, bool pci_bus_order,
                     const NvmlScan& nvml, bool other_order = false);

}  // namespace hvdrun
