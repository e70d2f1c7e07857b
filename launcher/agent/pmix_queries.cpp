#include "agent/pmix_queries.hpp"

#include <array>
#include <string_view>

// Of PMIx 4.2.
#ifndef PMIX_QUERY_STABLE_ABI_VERSION
#define PMIX_QUERY_STABLE_ABI_VERSION "pmix.qry.stabiver"
#define PMIX_QUERY_PROVISIONAL_ABI_VERSION "pmix.qry.prabiver"
#endif

namespace hvdrun {
namespace {

// OpenPMIx names no version of the interface stable; both are these (pmix_config.h).
constexpr const char* kAbi = "0.0";

constexpr std::array kKeys{PMIX_QUERY_NAMESPACES, PMIX_QUERY_STABLE_ABI_VERSION,
                           PMIX_QUERY_PROVISIONAL_ABI_VERSION, PMIX_QUERY_NUM_PSETS,
                           PMIX_QUERY_SUPPORTED_KEYS};

// Adds the value of a key, and returns whether the key is known.
bool add_answer(const char* key, const std::string& nspace, PmixInfoList& infos) {
  const std::string_view wanted = key;
  if (wanted == PMIX_QUERY_NAMESPACES) {
    infos.add(key, nspace);
  } else if (wanted == PMIX_QUERY_STABLE_ABI_VERSION ||
             wanted == PMIX_QUERY_PROVISIONAL_ABI_VERSION) {
    infos.add(key, std::string(kAbi));
  } else if (wanted == PMIX_QUERY_NUM_PSETS) {
    infos.add_size(key, 0);
  } else if (wanted == PMIX_QUERY_SUPPORTED_KEYS) {
    std::string keys;
    for (const auto* each : kKeys) keys += (keys.empty() ? "" : ",") + std::string(each);
    infos.add(key, keys);
  } else {
    return false;
  }
  return true;
}

}  // namespace

PmixQueryAnswer answer_queries(const pmix_query_t queries[], std::size_t count,
                               const std::string& nspace) {
  PmixQueryAnswer answer{PMIX_SUCCESS, std::make_unique<PmixInfoList>()};
  bool is_complete = true;
  for (std::size_t i = 0; i < count; ++i)
    for (char* const* key = queries[i].keys; key != nullptr && *key != nullptr; ++key)
      is_complete &= add_answer(*key, nspace, *answer.infos);
  if (answer.infos->size() == 0)
    answer.status = PMIX_ERR_NOT_SUPPORTED;
  else if (!is_complete)
    answer.status = PMIX_QUERY_PARTIAL_SUCCESS;
  return answer;
}

}  // namespace hvdrun
