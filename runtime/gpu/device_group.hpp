// What a communicator's ranks have for buffers in device memory: CUDA, and NCCL between their GPUs.
//
// It belongs to the communicator (Communicator::device_state) from the first call that says
// HVD_CUDA until the communicator ends, and is used by the same thread.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "gpu/copy_kernel.hpp"
#include "gpu/cuda_library.hpp"
#include "gpu/device_memory.hpp"
#include "gpu/nccl.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

class DeviceGroup : public DeviceState {
 public:
  // The communicator's own, made when there is none.
  static DeviceGroup& of(Communicator& communicator);

  explicit DeviceGroup(Result<CudaLibrary> cuda);

  // What is wrong with a buffer, for the other ranks to hear; "" when nothing is. From the first
  // one that is not empty, else from the place, it learns which device this rank uses.
  std::string check_buffer(const char* what, const void* buffer, std::size_t count,
                           const Place& place);

  // All ranks call it together, once they agree that they call the same: the first time they meet
  // on their devices. Error: the same on all ranks, every time.
  Result<void> meet(Communicator& communicator);

  // Why nothing works any more, if so; the other ranks have been told.
  std::optional<Error> failure() const;

  // After meet(): several ranks are on one GPU, which NCCL cannot do, or what goes to other hosts
  // must be encrypted, which it does not.
  bool through_host() const { return nccl_ == nullptr; }
  NcclCommunicator& nccl() { return *nccl_; }
  // What small tensors are packed with; null: not all ranks can. The buffer is made when it is
  // first asked for.
  const CopyKernel* kernel() const { return kernel_ ? &*kernel_ : nullptr; }
  Result<std::byte*> fusion_buffer();
  // The work on the device cannot go on, here or on other ranks.
  Error give_up(const Error& error) { return nccl_->give_up_for(error); }
  HostStage& stage() { return *stage_; }
  const CudaLibrary& cuda() const { return *cuda_; }
  int device() const { return device_; }

 private:
  Result<void> choose_device(const Place& place);
  Result<void> introduce(Communicator& communicator);
  Result<void> start_nccl(Communicator& communicator, const NcclLibrary& nccl,
                          std::chrono::milliseconds timeout);

  Result<CudaLibrary> cuda_;
  std::optional<HostStage> stage_;  // when there is CUDA
  int device_ = -1;                 // not known yet
  std::optional<Result<void>> met_;
  std::optional<CopyKernel> kernel_;
  std::optional<FusionBuffer> fusion_;
  std::unique_ptr<NcclCommunicator> nccl_;
};

// What the ranks of a communicator tell each other before they start NCCL, and what follows from
// it.

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
Result<void> check_devices(std::span<const DeviceInfo> infos);
// "ranks 0-1 share a GPU" for each GPU with several ranks; "": there is none.
std::string describe_shared_gpus(std::span<const DeviceInfo> infos);
// Whether all ranks pack small tensors: they do the same calls of NCCL only when all or none do.
bool all_pack(std::span<const DeviceInfo> infos);
// A rank without NCCL, or with another version of it than others.
Result<void> check_nccl(std::span<const DeviceInfo> infos);

// All ranks tell how something went: success when it went well on all, else one error with the
// words of each rank.
Result<void> agree_on(Communicator& communicator, const char* what, const Result<void>& own);

}  // namespace libhvd
