// What the ranks of a communicator exchange before they start NCCL, and what follows from it. The
// functions with a communicator are collectives. The others are pure, and return the same on all
// ranks, because all ranks see the same infos.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// Is sent between ranks, so it has no pointers.
struct DeviceInfo {
  char gpu[96];            // the key of the GPU; different for every GPU of every host
  char error[160];         // why this rank cannot take part at all; "" if it can
  char nccl_error[160];    // why it has no NCCL; "" if it has
  char kernel_error[128];  // why it has none of libhvd's own kernels; "" if it has them
  std::int32_t nccl_version;
  std::int32_t encrypted;  // 1: data to other hosts must be encrypted, see HVD_DATA_TLS
};

// Returns the key of the GPU at a PCI address of this host: the address, and what NCCL takes for
// the host: NCCL_HOSTID of this process, or else the boot of the running kernel. NCCL refuses ranks
// with equal keys.
std::string gpu_key(const std::string& pci_address);

// Gathers the infos of all ranks, by rank. Error: a rank has failed.
Result<std::vector<DeviceInfo>> gather_device_info(Communicator& communicator,
                                                   const DeviceInfo& own);

// Error: a rank cannot take part.
Result<void> check_devices(std::span<const DeviceInfo> infos);
// Returns "ranks 0-1 share a GPU" for each GPU that several ranks have; "" if there is none.
std::string describe_shared_gpus(std::span<const DeviceInfo> infos);
// Returns "rank 1: there is no driver" for the ranks without libhvd's kernels; "" if all have them.
// The ranks' calls of NCCL are the same only if all have them or none uses them.
std::string describe_missing_kernels(std::span<const DeviceInfo> infos);
// Error: a rank has no NCCL, or another version of it than others.
Result<void> check_nccl(std::span<const DeviceInfo> infos);

// Combines the outcomes of all ranks. Returns success if all have succeeded, or else one error with
// the texts of all ranks.
Result<void> agree_on(Communicator& communicator, const char* what, const Result<void>& own);

}  // namespace libhvd
