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
#include <memory>
#include <optional>
#include <string>

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
  Outcome meet(Communicator& communicator);

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
  Outcome choose_device(const Place& place);
  Outcome introduce(Communicator& communicator);
  Outcome start_nccl(Communicator& communicator, const NcclLibrary& nccl,
                     std::chrono::milliseconds timeout);

  Result<CudaLibrary> cuda_;
  std::optional<HostStage> stage_;  // when there is CUDA
  int device_ = -1;                 // not known yet
  std::optional<Outcome> met_;
  std::optional<CopyKernel> kernel_;
  std::optional<FusionBuffer> fusion_;
  std::unique_ptr<NcclCommunicator> nccl_;
};

}  // namespace libhvd
