#include "gpu/device_info.hpp"

#include "base/process_environment.hpp"
#include "common/sha256.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "gpu/nccl_library.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace libhvd {
namespace {

constexpr std::size_t kMostHost = 64;  // characters of a host in the key of a GPU; else their hash

// The ranks that have the same value, by value.
using Groups = std::map<std::string, std::vector<int>>;

Groups group_by(std::size_t ranks, const std::function<std::string(std::size_t)>& value) {
  Groups groups;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    groups[value(rank)].push_back(static_cast<int>(rank));
  return groups;
}

// Returns "rank 1: no such library; ranks 2-3: …" for the errors that are not "".
std::string describe_errors(const Groups& errors) {
  std::string text;
  for (const auto& [error, ranks] : errors) {
    if (error.empty()) continue;
    text += (text.empty() ? "" : "; ") + describe_ranks(ranks) + ": " + error;
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

std::string gpu_key(const std::string& pci_address) {
  std::string host = process_environment()(HVD_ENV_NCCL_HOSTID).value_or(boot_id());
  if (host.empty()) host = local_host_name();
  if (host.size() > kMostHost)
    host = to_hex(sha256({reinterpret_cast<const std::uint8_t*>(host.data()), host.size()}));
  return pci_address + '/' + host;
}

Result<std::vector<DeviceInfo>> gather_device_info(Communicator& communicator,
                                                   const DeviceInfo& own) {
  return gather(communicator, own);
}

Result<void> check_devices(std::span<const DeviceInfo> infos) {
  const std::string text = describe_errors(group_by(
      infos.size(), [&](std::size_t rank) { return std::string(field_text(infos[rank].error)); }));
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

std::string describe_missing_kernels(std::span<const DeviceInfo> infos) {
  return describe_errors(group_by(infos.size(), [&](std::size_t rank) {
    return std::string(field_text(infos[rank].kernel_error));
  }));
}

Result<void> check_nccl(std::span<const DeviceInfo> infos) {
  const std::string text = describe_errors(group_by(infos.size(), [&](std::size_t rank) {
    return std::string(field_text(infos[rank].nccl_error));
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
    // HVD_ERROR_PEER is what another rank's failure looks like, so the other rank's own error wins.
    if (outcome.status != HVD_OK && (status == HVD_OK || status == HVD_ERROR_PEER))
      status = outcome.status;
  }
  if (status == HVD_OK) return {};
  return fail(status, std::string(what) + ": " +
                          describe_errors(group_by(outcomes.size(), [&](std::size_t rank) {
                            return std::string(field_text(outcomes[rank].text));
                          })));
}

}  // namespace libhvd
