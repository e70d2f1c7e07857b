// What the ranks of a communicator tell each other before they start NCCL, and what follows from
// it.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// Travels between ranks: no pointers.
struct DeviceInfo {
  char gpu[96];            // names it on this host and no other
  char trouble[160];       // why this rank cannot take part at all; "": it can
  char nccl_trouble[160];  // why it has no NCCL; "": it has
  std::int32_t nccl_version;
  std::int32_t packs;      // 1: it has the kernel that packs small tensors
  std::int32_t encrypted;  // 1: what goes to other hosts must be, see HVD_DATA_TLS
};

// The GPU at a PCI address of this host: the running kernel's own number and the address.
std::string gpu_key(const std::string& pci_address);

// Those of all ranks, in order.
Result<std::vector<DeviceInfo>> gather_device_info(Communicator& communicator,
                                                   const DeviceInfo& own);

// Each says the same on all ranks, as all see the same infos.
// A rank that cannot take part.
Outcome check_devices(std::span<const DeviceInfo> infos);
// "ranks 0-1 share a GPU" for each GPU with several ranks; "": there is none.
std::string describe_shared_gpus(std::span<const DeviceInfo> infos);
// Whether all ranks pack small tensors: they do the same calls of NCCL only when all or none do.
bool all_pack(std::span<const DeviceInfo> infos);
// A rank without NCCL, or with another version of it than others.
Outcome check_nccl(std::span<const DeviceInfo> infos);

// All ranks tell how something went: Done when it went well on all, else one error with the words
// of each rank.
Outcome agree_on(Communicator& communicator, const char* what, const Outcome& own);

}  // namespace libhvd
