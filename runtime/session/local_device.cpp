#include "session/local_device.hpp"

#include "common/variables.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace libhvd {
namespace {

bool is_device(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-") ||
         (!entry.empty() && entry.front() >= '0' && entry.front() <= '9');
}

// CUDA ignores the entries after the first invalid one ("-1").
int count_devices(std::string_view list) {
  int count = 0;
  while (is_device(list)) {
    ++count;
    const std::size_t comma = list.find(',');
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return count;
}

}  // namespace

Result<GivenDevices> read_devices(const Environment& environment) {
  constexpr std::int64_t kMostDevices = 1 << 20;
  GivenDevices given;
  HVD_TRY(const auto own, read_integer(environment, HVD_ENV_LOCAL_DEVICE, 0, kMostDevices));
  if (own) given.own = static_cast<int>(*own);
  if (const auto list = environment("CUDA_VISIBLE_DEVICES")) given.visible = count_devices(*list);
  return given;
}

int local_device(const GivenDevices& given, int local_rank) {
  const int device = given.own.value_or(local_rank);
  return given.visible.value_or(0) > 0 ? device % *given.visible : device;
}

}  // namespace libhvd
