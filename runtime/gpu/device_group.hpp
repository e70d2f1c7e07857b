// What a communicator needs for buffers in device memory: CUDA, and NCCL between the ranks' GPUs.
//
// The communicator owns it (Communicator::device_state), from the first call that says HVD_CUDA
// until the communicator ends. The communicator's thread uses it.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "gpu/adasum_kernels.hpp"
#include "gpu/copy_kernel.hpp"
#include "gpu/cuda_library.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/device_queue.hpp"
#include "gpu/host_stage.hpp"
#include "gpu/nccl_communicator.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace libhvd {

class DeviceGroup : public DeviceState {
 public:
  // Returns the group of the communicator. Makes it if there is none.
  static DeviceGroup& of(Communicator& communicator);

  explicit DeviceGroup(Result<CudaLibrary> cuda);

  // Returns what is wrong with a buffer, which is then sent to all ranks; "" if it is sound. The
  // first buffer that is not empty determines the device of this rank, or else the place does.
  std::string check_buffer(const char* what, const void* buffer, std::size_t count,
                           const BufferLocation& place);

  // Connects the ranks' devices the first time. All ranks must call it together, after agree(), in
  // the turn of the call. Error: the same on all ranks, every time.
  Result<void> meet(Communicator& communicator, CallOrder& order);

  // Returns why nothing works any more, which the call must return, or nullopt. The other ranks
  // know it.
  std::optional<Error> take_failure();
  std::optional<Error> untold_loss() const override;

  // Returns whether data must go through host memory. Call it after meet(). It must if several
  // ranks are on one GPU, which NCCL cannot do, or if data to other hosts must be encrypted, which
  // NCCL does not do.
  bool through_host() const { return nccl_ == nullptr; }
  NcclCommunicator& nccl() { return *nccl_; }
  // Return libhvd's own kernels: what packs small tensors, and Adasum's; null if not all ranks have
  // them. The buffer is allocated by the first call of fusion_buffer().
  const CopyKernel* copy_kernel() const { return kernels_ ? &*kernels_->copy : nullptr; }
  const AdasumKernels* adasum_kernels() const { return kernels_ ? &*kernels_->adasum : nullptr; }
  Result<std::byte*> fusion_buffer();
  // Returns memory for one call. All ranks must ask for as many bytes. It is kept for later calls,
  // and grows. Error, on all ranks: one has no memory.
  Result<std::byte*> workspace(Communicator& communicator, std::size_t bytes);
  // Ends the work on the device, here and on other ranks, after an error.
  Error give_up(const Error& error) {
    told_ = true;
    return nccl_->give_up_for(error);
  }
  HostStage& stage() { return *stage_; }
  // Returns the order of the work on this rank's device. Call it after meet().
  DeviceQueue& queue() { return *queue_; }
  const CudaLibrary& cuda() const { return *cuda_; }
  int device() const { return device_; }

 private:
  struct Kernels {
    KernelModule module;
    std::optional<CopyKernel> copy;
    std::optional<AdasumKernels> adasum;
  };
  static Result<std::unique_ptr<Kernels>> load_kernels(const Environment& environment);
  Result<void> choose_device(const BufferLocation& place);
  Result<void> connect(Communicator& communicator);
  Result<void> start_nccl(Communicator& communicator, const NcclLibrary& nccl,
                          std::chrono::milliseconds timeout);

  Result<CudaLibrary> cuda_;
  std::optional<HostStage> stage_;  // if there is CUDA
  int device_ = -1;                 // -1: not known yet
  DeviceQueue* queue_ = nullptr;    // the order of calls owns it
  std::optional<Result<void>> met_;
  bool told_ = false;  // a call has returned the failure
  std::unique_ptr<Kernels> kernels_;
  std::optional<DeviceBuffer> fusion_;
  std::optional<DeviceBuffer> workspace_;
  std::unique_ptr<NcclCommunicator> nccl_;  // last: its thread looks at the queue
};

}  // namespace libhvd
