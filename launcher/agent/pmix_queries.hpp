// What a rank can ask a PMIx server about: the namespaces that it has, the versions of PMIx's
// binary interface, the sets of processes that a user has named, and which keys it answers.
//
// Pure functions, for any thread. Source: PMIx Standard 4.2, section 7.1 (PMIx_Query_info).
#pragma once

#include "agent/pmix_library.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace hvdrun {

struct PmixQueryAnswer {
  pmix_status_t status = PMIX_SUCCESS;
  std::unique_ptr<PmixInfoList> infos;  // one for each key that is known
};

// Returns the answer to all keys of the queries. The status is PMIX_ERR_NOT_SUPPORTED if none is
// known, and PMIX_QUERY_PARTIAL_SUCCESS if some are not. `nspace`: the job's namespace.
PmixQueryAnswer answer_queries(const pmix_query_t queries[], std::size_t count,
                               const std::string& nspace);

}  // namespace hvdrun
