#include "engine/settings.hpp"

#include "common/variables.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace libhvd {
namespace {

// The limits of hvdrun's options.
constexpr std::int64_t kMostFusedBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostNames = INT32_MAX;
constexpr std::chrono::seconds kLongestStall{1'000'000'000};

bool is_set(const Environment& environment, const std::string& name) {
  const auto value = environment(name.c_str());
  // horovod.run() sets some of its variables to a Python tuple when their option is not given.
  return value && !value->empty() && *value != "(None,)";
}

// Returns the name of the variable that applies: ours, or Horovod's.
std::string name_in_use(const Environment& environment, const std::string& ours) {
  const std::string theirs = "HOROVOD_" + ours.substr(std::string_view("HVD_").size());
  const auto own = environment(ours.c_str());
  return (!own || own->empty()) && is_set(environment, theirs) ? theirs : ours;
}

// Replaces `setting` by the variable's value, if it is set.
template <class Number>
Result<void> read_number(const Environment& environment, const char* ours, std::int64_t maximum,
                         Number& setting) {
  const std::string name = name_in_use(environment, ours);
  HVD_TRY(const auto value, read_integer(environment, name.c_str(), 0, maximum));
  if (value) setting = static_cast<Number>(*value);
  return {};
}

// Does the same for a time in seconds.
Result<void> read_time(const Environment& environment, const char* ours,
                       std::chrono::milliseconds& setting) {
  const std::string name = name_in_use(environment, ours);
  HVD_TRY(const auto value, read_seconds(environment, name.c_str(), kLongestStall));
  if (value) setting = *value;
  return {};
}

}  // namespace

Result<EngineSettings> read_engine_settings(const Environment& environment) {
  EngineSettings read;
  bool stall_check_disabled = false;
  bool data_check_disabled = false;
  HVD_CHECK(
      read_number(environment, HVD_ENV_FUSION_THRESHOLD, kMostFusedBytes, read.fusion.together));
  HVD_CHECK(read_number(environment, HVD_ENV_FUSION_LARGEST, kMostFusedBytes, read.fusion.each));
  HVD_CHECK(read_number(environment, HVD_ENV_AUTOTUNE, 1, read.autotune));
  const std::string log = name_in_use(environment, HVD_ENV_AUTOTUNE_LOG);
  if (is_set(environment, log)) read.autotune_log = *environment(log.c_str());
  HVD_CHECK(read_number(environment, HVD_ENV_CACHE_CAPACITY, kMostNames, read.cache_capacity));
  HVD_CHECK(read_number(environment, HVD_ENV_DATA_CHECK_DISABLE, 1, data_check_disabled));
  HVD_CHECK(read_number(environment, HVD_ENV_STALL_CHECK_DISABLE, 1, stall_check_disabled));
  HVD_CHECK(read_time(environment, HVD_ENV_STALL_CHECK_TIME, read.stall_warning));
  HVD_CHECK(read_time(environment, HVD_ENV_STALL_SHUTDOWN_TIME, read.stall_error));
  read.stall_check = !stall_check_disabled;
  read.data_check = !data_check_disabled;
  return read;
}

}  // namespace libhvd
