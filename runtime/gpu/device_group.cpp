#include "gpu/device_group.hpp"

#include "base/process_environment.hpp"
#include "bootstrap/job_secret.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "gpu/device_info.hpp"
#include "gpu/fusion_pieces.hpp"
#include "gpu/image.hpp"
#include "gpu/nccl_communicator.hpp"
#include "gpu/nccl_library.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

constexpr std::int64_t kDefaultTimeoutS = 120;
constexpr std::int64_t kLongestTimeoutS = 24 * 60 * 60;

// What rank 0 sends to all ranks: the ID, or its error.
struct SharedId {
  NcclUniqueId id;
  std::int32_t status;
  char error[156];
};

Result<DeviceInfo> make_device_info(const CudaLibrary& cuda, int device,
                                    const Result<NcclLibrary>& nccl) {
  char address[32] = {};
  HVD_CHECK(cuda.check(cuda.cudaDeviceGetPCIBusId(address, sizeof address, device),
                       "cudaDeviceGetPCIBusId"));
  DeviceInfo info{};
  copy_text(info.gpu, gpu_key(address));
  if (nccl.ok()) {
    info.nccl_version = nccl->version;
  } else {
    copy_text(info.nccl_error, nccl.error().message);
  }
  return info;
}

Result<SharedId> share_id(Communicator& communicator, const NcclLibrary& nccl) {
  SharedId shared{};
  if (communicator.rank() == 0) {
    const NcclStatus status = nccl.ncclGetUniqueId(&shared.id);
    if (status != NcclStatus::success) {
      const Error error = nccl.describe(status, "ncclGetUniqueId", nullptr);
      shared.status = error.status;
      copy_text(shared.error, "rank 0: " + error.message);
    }
  }
  HVD_CHECK(communicator.broadcast(&shared, sizeof shared, HVD_UINT8, 0, {}));
  if (shared.status != HVD_OK) return fail(shared.status, std::string(field_text(shared.error)));
  return shared;
}

}  // namespace

DeviceGroup& DeviceGroup::of(Communicator& communicator) {
  auto& device_state = communicator.device_state();
  if (!device_state)
    device_state = std::make_unique<DeviceGroup>(CudaLibrary::load(process_environment()));
  return static_cast<DeviceGroup&>(*device_state);
}

DeviceGroup::DeviceGroup(Result<CudaLibrary> cuda) : cuda_(std::move(cuda)) {
  if (cuda_.ok()) stage_.emplace(*cuda_);
}

std::string DeviceGroup::check_buffer(const char* what, const void* buffer, std::size_t count,
                                      const BufferLocation& place) {
  if (!cuda_.ok()) return cuda_.error().message;
  if (count == 0 || buffer == nullptr) {
    const Result<void> chosen = choose_device(place);
    return chosen.ok() ? "" : chosen.error().message;
  }
  CudaPointer pointer;
  const CudaStatus status = cuda_->cudaPointerGetAttributes(&pointer, buffer);
  const Result<void> asked = cuda_->check(status, "cudaPointerGetAttributes");
  if (!asked.ok() && status != kCudaInvalidValue) return asked.error().message;
  if (!asked.ok() || (pointer.type != kCudaMemoryDevice && pointer.type != kCudaMemoryManaged))
    return std::string("the ") + what + " is not in device memory, but the call says HVD_CUDA";
  if (device_ < 0) device_ = pointer.device;
  if (device_ == pointer.device) return "";
  return std::string("the ") + what + " is on device " + std::to_string(pointer.device) +
         ", but this rank has used device " + std::to_string(device_) + " before";
}

Result<void> DeviceGroup::choose_device(const BufferLocation& place) {
  if (device_ >= 0) return {};
  device_ = place.device;
  if (device_ >= 0) return {};
  return cuda_->check(cuda_->cudaGetDevice(&device_), "cudaGetDevice");
}

Result<void> DeviceGroup::meet(Communicator& communicator, CallOrder& order) {
  if (!met_) {
    queue_ = &DeviceQueue::of(order, *cuda_);
    const CurrentDevice current(*cuda_, device_);
    met_ = connect(communicator);
  }
  return *met_;
}

Result<void> DeviceGroup::connect(Communicator& communicator) {
  const Environment environment = process_environment();
  const auto nccl = NcclLibrary::load(environment);
  const auto seconds = read_integer(environment, HVD_ENV_NCCL_TIMEOUT, 1, kLongestTimeoutS);
  DeviceInfo own{};
  if (auto info = make_device_info(*cuda_, device_, nccl); info.ok()) {
    own = *info;
  } else {
    copy_text(own.error, info.error().message);
  }
  if (!seconds.ok()) copy_text(own.error, seconds.error().message);
  const auto encrypted = read_data_tls(environment);
  if (!encrypted.ok()) copy_text(own.error, encrypted.error().message);
  own.encrypted = encrypted.ok() && *encrypted ? 1 : 0;
  auto kernels = load_kernels(environment);
  if (!kernels.ok()) copy_text(own.kernel_error, kernels.error().message);
  HVD_TRY(const auto infos, gather_device_info(communicator, own));
  HVD_CHECK(check_devices(infos));
  if (const std::string shared = describe_shared_gpus(infos); !shared.empty()) {
    if (communicator.rank() == 0)
      std::fprintf(stderr,
                   "hvd: %s, which NCCL cannot do: their collectives on device memory go through "
                   "host memory\n",
                   shared.c_str());
    return {};
  }
  const bool encrypted_between_hosts =
      !communicator.on_one_host() &&
      std::any_of(infos.begin(), infos.end(),
                  [](const DeviceInfo& info) { return info.encrypted != 0; });
  if (encrypted_between_hosts) {
    if (communicator.rank() == 0)
      std::fprintf(
          stderr,
          "hvd: HVD_DATA_TLS=1, and libhvd's connections of NCCL are not encrypted: collectives on "
          "device memory go through host memory\n");
    return {};
  }
  HVD_CHECK(check_nccl(infos));
  const std::string missing = describe_missing_kernels(infos);
  if (missing.empty()) kernels_ = std::move(*kernels);
  if (!missing.empty() && kernel_image() != nullptr && communicator.rank() == 0)
    std::fprintf(stderr,
                 "hvd: without libhvd's own kernels small tensors are not packed, and Adasum goes "
                 "through host memory: %s\n",
                 missing.c_str());
  if (communicator.reproducible() && communicator.rank() == 0)
    std::fprintf(stderr,
                 "hvd: HVD_REPRODUCIBLE=1, and NCCL adds in an order of its own: sums of floating "
                 "point numbers on device memory go through host memory\n");
  return start_nccl(communicator, *nccl, std::chrono::seconds(seconds->value_or(kDefaultTimeoutS)));
}

Result<void> DeviceGroup::start_nccl(Communicator& communicator, const NcclLibrary& nccl,
                                     std::chrono::milliseconds timeout) {
  HVD_TRY(const SharedId shared, share_id(communicator, nccl));
  auto started = NcclCommunicator::start(
      {.nccl = nccl,
       .rank = communicator.rank(),
       .size = communicator.size(),
       .id = shared.id,
       .timeout = timeout,
       .find_failure = [&communicator]() -> std::optional<Error> {
         const auto failure = communicator.find_failure();
         if (!failure) return std::nullopt;
         return fail(HVD_ERROR_PEER, communicator.segment()->describe(*failure));
       },
       .notify_peers =
           [&communicator] { communicator.abort_job(FailureKind::device, communicator.rank()); },
       .look_at_gpu = [this, &communicator]() -> Result<bool> {
         HVD_TRY(const auto oldest, queue_->look(communicator, device_));
         if (const auto& hook = communicator.while_on_device()) hook(oldest);
         return oldest.has_value();
       }});
  const Result<void> own = started.ok() ? Result<void>() : Result<void>(started.error());
  HVD_CHECK(agree_on(communicator, "NCCL cannot start", own));
  nccl_ = std::move(*started);
  return {};
}

Result<std::unique_ptr<DeviceGroup::Kernels>> DeviceGroup::load_kernels(
    const Environment& environment) {
  HVD_TRY(auto module, KernelModule::load(environment));
  std::unique_ptr<Kernels> kernels(new Kernels{std::move(module), {}, {}});
  HVD_TRY(kernels->copy, CopyKernel::find(kernels->module));
  HVD_TRY(kernels->adasum, AdasumKernels::find(kernels->module));
  return kernels;
}

Result<std::byte*> DeviceGroup::fusion_buffer() {
  if (!fusion_) {
    HVD_TRY(auto made, DeviceBuffer::allocate(*cuda_, kDeviceFusionBytes));
    fusion_.emplace(std::move(made));
  }
  return fusion_->data();
}

Result<std::byte*> DeviceGroup::workspace(Communicator& communicator, std::size_t bytes) {
  if (!workspace_ || workspace_->size() < bytes) {
    workspace_.reset();
    auto made = DeviceBuffer::allocate(*cuda_, bytes);
    const Result<void> own = made.ok() ? Result<void>() : Result<void>(made.error());
    HVD_CHECK(agree_on(communicator, "there is no device memory", own));
    workspace_.emplace(std::move(*made));
  }
  return workspace_->data();
}

std::optional<Error> DeviceGroup::take_failure() {
  if (!nccl_) return std::nullopt;
  auto failure = nccl_->failure();
  told_ = told_ || failure;
  return failure;
}

std::optional<Error> DeviceGroup::untold_loss() const {
  return nccl_ && !told_ ? nccl_->loss() : std::nullopt;
}

}  // namespace libhvd
