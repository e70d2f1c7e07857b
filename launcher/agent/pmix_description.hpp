// What a PMIx server is told of its job: hosts, ranks, and where each runs.
//
// Source: PMIx Standard 4.1, chapter 16.2.3 (PMIx_server_register_nspace).
#pragma once

#include "agent/pmix_info.hpp"
#include "agent/pmix_job.hpp"
#include "agent/pmix_library.hpp"
#include "base/result.hpp"

#include <filesystem>

namespace hvdrun {

// `folder` is for the files of PMIx and of its clients. Error: libpmix cannot pack the maps.
Result<PmixInfoList> describe_job(const PmixLibrary& library, const PmixJob& job,
                                  const std::filesystem::path& folder);

}  // namespace hvdrun
