// Reading what libpmix hands to the functions of a server: pure functions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <pmix_common.h>

namespace hvdrun {

// PMIX_TIMEOUT, whatever type of number the caller gave it; none: not there, or 0, which is no
// limit.
std::optional<std::chrono::seconds> timeout_of(const pmix_info_t infos[], std::size_t count);

// PMIX_LOCAL_COLLECTIVE_STATUS: how the local ranks' part went.
pmix_status_t local_status_of(const pmix_info_t infos[], std::size_t count);

// Ranks of `nspace`, ascending; empty: all of them. None: some are not of that namespace.
std::optional<std::vector<std::uint32_t>> ranks_of(const pmix_proc_t procs[], std::size_t count,
                                                   std::string_view nspace);

}  // namespace hvdrun
