#include "gpu/device_group.hpp"

#include "base/environment.hpp"
#include "bootstrap/job_secret.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "gpu/nccl.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace libhvd {

namespace {

constexpr std::int64_t kPatienceS = 120;
constexpr std::int64_t kLongestPatienceS = 24 * 60 * 60;

// From rank 0 to all.
struct IdNote {
  NcclUniqueId id;
  std::int32_t status;
  char trouble[156];
};

Result<DeviceInfo> make_card(const CudaLibrary& cuda, int device, const Result<NcclLibrary>& nccl) {
  char address[32] = {};
  HVD_CHECK(cuda.check(cuda.cudaDeviceGetPCIBusId(address, sizeof address, device),
                       "cudaDeviceGetPCIBusId"));
  DeviceInfo info{};
  copy_text(info.gpu, gpu_key(address));
  if (nccl.ok()) {
    info.nccl_version = nccl->version;
  } else {
    copy_text(info.nccl_trouble, nccl.error().message);
  }
  return info;
}

Result<IdNote> share_id(Communicator& communicator, const NcclLibrary& nccl) {
  IdNote note{};
  if (communicator.rank() == 0) {
    const NcclStatus status = nccl.ncclGetUniqueId(&note.id);
    if (status != NcclStatus::success) {
      const Error error = nccl.describe(status, "ncclGetUniqueId", nullptr);
      note.status = error.status;
      copy_text(note.trouble, "rank 0: " + error.message);
    }
  }
  HVD_CHECK(communicator.broadcast(&note, sizeof note, HVD_UINT8, 0, {}));
  if (note.status != HVD_OK) return fail(note.status, std::string(field_text(note.trouble)));
  return note;
}

// One value a rank. `each` gets what stands for the group, and its ranks.
using Groups = std::map<std::string, std::vector<int>>;

Groups group_by(std::size_t ranks, const std::function<std::string(std::size_t)>& value) {
  Groups groups;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    groups[value(rank)].push_back(static_cast<int>(rank));
  return groups;
}

// "rank 1: no such library; ranks 2-3: …" of what is not "".
std::string describe_troubles(const Groups& troubles) {
  std::string text;
  for (const auto& [trouble, ranks] : troubles) {
    if (trouble.empty()) continue;
    text += (text.empty() ? "" : "; ") + describe_ranks(ranks) + ": " + trouble;
  }
  return text;
}

struct RankOutcome {
  std::int32_t status;
  char text[252];
};

template <class T>
Result<std::vector<T>> gather(Communicator& communicator, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(communicator.size()));
  HVD_CHECK(
      communicator.allgather(&own, 1, sizeof own, HVD_UINT8, all.data(), all.size(), nullptr, {}));
  return all;
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
                                      const Place& place) {
  if (!cuda_.ok()) return cuda_.error().message;
  if (count == 0 || buffer == nullptr) {
    const Result<void> chosen = choose_device(place);
    return chosen.ok() ? "" : chosen.error().message;
  }
  CudaPointer pointer;
  const CudaStatus status = cuda_->cudaPointerGetAttributes(&pointer, buffer);
  if (status != kCudaSuccess) cuda_->cudaGetLastError();
  if (status != kCudaSuccess ||
      (pointer.type != kCudaMemoryDevice && pointer.type != kCudaMemoryManaged))
    return std::string("the ") + what + " is not in device memory, but the call says HVD_CUDA";
  if (device_ < 0) device_ = pointer.device;
  if (device_ == pointer.device) return "";
  return std::string("the ") + what + " is on device " + std::to_string(pointer.device) +
         ", but this rank has used device " + std::to_string(device_) + " before";
}

Result<void> DeviceGroup::choose_device(const Place& place) {
  if (device_ >= 0) return {};
  device_ = place.device;
  if (device_ >= 0) return {};
  return cuda_->check(cuda_->cudaGetDevice(&device_), "cudaGetDevice");
}

Result<void> DeviceGroup::meet(Communicator& communicator) {
  if (!met_) {
    const CurrentDevice current(*cuda_, device_);
    met_ = introduce(communicator);
  }
  return *met_;
}

Result<void> DeviceGroup::introduce(Communicator& communicator) {
  const Environment environment = process_environment();
  const auto nccl = NcclLibrary::load(environment);
  const auto seconds = read_integer(environment, HVD_ENV_NCCL_TIMEOUT, 1, kLongestPatienceS);
  DeviceInfo own{};
  if (auto info = make_card(*cuda_, device_, nccl); info.ok()) {
    own = *info;
  } else {
    copy_text(own.trouble, info.error().message);
  }
  if (!seconds.ok()) copy_text(own.trouble, seconds.error().message);
  const auto encrypted = read_data_tls(environment);
  if (!encrypted.ok()) copy_text(own.trouble, encrypted.error().message);
  own.encrypted = encrypted.ok() && *encrypted ? 1 : 0;
  auto kernel = CopyKernel::load(environment);
  own.packs = kernel.ok() ? 1 : 0;
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
          "hvd: HVD_DATA_TLS=1, and NCCL does not encrypt: collectives on device memory go "
          "through host memory\n");
    return {};
  }
  HVD_CHECK(check_nccl(infos));
  if (all_pack(infos)) kernel_.emplace(std::move(*kernel));
  return start_nccl(communicator, *nccl, std::chrono::seconds(seconds->value_or(kPatienceS)));
}

Result<void> DeviceGroup::start_nccl(Communicator& communicator, const NcclLibrary& nccl,
                                     std::chrono::milliseconds timeout) {
  HVD_TRY(const IdNote note, share_id(communicator, nccl));
  auto started = NcclCommunicator::start(
      {.nccl = nccl,
       .rank = communicator.rank(),
       .size = communicator.size(),
       .id = note.id,
       .timeout = timeout,
       .find_failure = [&communicator]() -> std::optional<Error> {
         const auto failure = communicator.find_failure();
         if (!failure) return std::nullopt;
         return fail(HVD_ERROR_PEER, describe_failure(*failure));
       },
       .tell_peers =
           [&communicator] { communicator.abort_job(FailureKind::device, communicator.rank()); }});
  const Result<void> own = started.ok() ? Result<void>() : Result<void>(started.error());
  HVD_CHECK(agree_on(communicator, "NCCL cannot start", own));
  nccl_ = std::move(*started);
  return {};
}

Result<std::byte*> DeviceGroup::fusion_buffer() {
  if (!fusion_) {
    HVD_TRY(auto made, FusionBuffer::create(*cuda_));
    fusion_.emplace(std::move(made));
  }
  return fusion_->data();
}

std::optional<Error> DeviceGroup::failure() const {
  if (!nccl_) return std::nullopt;
  return nccl_->failure();
}

std::string gpu_key(const std::string& pci_address) {
  std::string kernel;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
  return (kernel.empty() ? local_host_name() : kernel) + '/' + pci_address;
}

Result<std::vector<DeviceInfo>> gather_device_info(Communicator& communicator,
                                                   const DeviceInfo& own) {
  return gather(communicator, own);
}

Result<void> check_devices(std::span<const DeviceInfo> infos) {
  const std::string text = describe_troubles(group_by(infos.size(), [&](std::size_t rank) {
    return std::string(field_text(infos[rank].trouble));
  }));
  if (text.empty()) return {};
  return fail(HVD_ERROR_SYSTEM, "the device cannot be used: " + text);
}

std::string describe_shared_gpus(std::span<const DeviceInfo> infos) {
  std::string text;
  const Groups groups = group_by(
      infos.size(), [&](std::size_t rank) { return std::string(field_text(infos[rank].gpu)); });
  for (const auto& [gpu, ranks] : groups) {
    if (ranks.size() > 1)
      text += (text.empty() ? "" : ", ") + describe_ranks(ranks) + " share a GPU";
  }
  return text;
}

bool all_pack(std::span<const DeviceInfo> infos) {
  return std::all_of(infos.begin(), infos.end(),
                     [](const DeviceInfo& info) { return info.packs != 0; });
}

Result<void> check_nccl(std::span<const DeviceInfo> infos) {
  const std::string text = describe_troubles(group_by(infos.size(), [&](std::size_t rank) {
    return std::string(field_text(infos[rank].nccl_trouble));
  }));
  if (!text.empty())
    return fail(HVD_ERROR_UNSUPPORTED, "NCCL, which device memory needs, is missing: " + text);
  const Groups versions = group_by(
      infos.size(), [&](std::size_t rank) { return nccl_version_text(infos[rank].nccl_version); });
  if (versions.size() <= 1) return {};
  std::string said;
  for (const auto& [version, ranks] : versions)
    said += (said.empty() ? "" : ", ") + version + " on " + describe_ranks(ranks);
  return fail(HVD_ERROR_MISMATCH, "the ranks have different versions of NCCL, which would hang: " +
                                      said + "; HVD_NCCL_LIBRARY names the one to use");
}

Result<void> agree_on(Communicator& communicator, const char* what, const Result<void>& own) {
  RankOutcome mine{};
  if (!own.ok()) {
    mine.status = own.error().status;
    copy_text(mine.text, own.error().message);
  }
  HVD_TRY(const auto outcomes, gather(communicator, mine));
  hvd_status status = HVD_OK;
  for (const RankOutcome& outcome : outcomes) {
    // That a peer fails is what its failure looks like from elsewhere.
    if (outcome.status != HVD_OK && (status == HVD_OK || status == HVD_ERROR_PEER))
      status = outcome.status;
  }
  if (status == HVD_OK) return {};
  return fail(status, std::string(what) + ": " +
                          describe_troubles(group_by(outcomes.size(), [&](std::size_t rank) {
                            return std::string(field_text(outcomes[rank].text));
                          })));
}

}  // namespace libhvd
