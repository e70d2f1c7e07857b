#include "agent/pmix_directives.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

std::int64_t number_of(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_INT:
      return value.data.integer;
    case PMIX_INT8:
      return value.data.int8;
    case PMIX_INT16:
      return value.data.int16;
    case PMIX_INT32:
      return value.data.int32;
    case PMIX_INT64:
      return value.data.int64;
    case PMIX_UINT:
      return value.data.uint;
    case PMIX_UINT8:
      return value.data.uint8;
    case PMIX_UINT16:
      return value.data.uint16;
    case PMIX_UINT32:
      return value.data.uint32;
    case PMIX_UINT64:
      return static_cast<std::int64_t>(value.data.uint64);
    case PMIX_SIZE:
      return static_cast<std::int64_t>(value.data.size);
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::chrono::seconds> timeout_of(const pmix_info_t infos[], std::size_t count) {
  // A year and none are the same to a job, but not to the arithmetic of timers.
  constexpr std::int64_t kYear = 31'536'000;
  const auto* const value = find_value(infos, count, PMIX_TIMEOUT);
  const auto seconds = value == nullptr ? 0 : number_of(*value);
  if (seconds <= 0 || seconds > kYear) return std::nullopt;
  return std::chrono::seconds(seconds);
}

pmix_status_t local_status_of(const pmix_info_t infos[], std::size_t count) {
  const auto* const value = find_value(infos, count, PMIX_LOCAL_COLLECTIVE_STATUS);
  return value == nullptr || value->type != PMIX_STATUS ? PMIX_SUCCESS : value->data.status;
}

std::optional<std::vector<std::uint32_t>> ranks_of(const pmix_proc_t procs[], std::size_t count,
                                                   std::string_view nspace) {
  std::vector<std::uint32_t> ranks;
  bool all = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (nspace != procs[i].nspace) return std::nullopt;
    if (procs[i].rank == PMIX_RANK_WILDCARD) all = true;
    ranks.push_back(procs[i].rank);
  }
  if (all) return std::vector<std::uint32_t>{};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

const pmix_value_t* find_value(const pmix_info_t infos[], std::size_t count, std::string_view key) {
  const auto* const end = infos + count;
  const auto* const at =
      std::find_if(infos, end, [key](const pmix_info_t& info) { return key == info.key; });
  return at == end ? nullptr : &at->value;
}

// PMIx's macro for infos says that a switch without a value is on.
bool is_on(const pmix_info_t infos[], std::size_t count, std::string_view key) {
  const auto* const value = find_value(infos, count, key);
  return value != nullptr &&
         (value->type == PMIX_UNDEF || (value->type == PMIX_BOOL && value->data.flag));
}

}  // namespace hvdrun
