// Reads what libpmix passes to the functions of a server: ranks, and directives such as a time
// limit. Pure functions, for any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <pmix_common.h>

namespace hvdrun {

// Returns PMIX_TIMEOUT, whatever type of number the caller has used. Returns nullopt if it is
// missing, longer than a year, or 0, which means no limit.
std::optional<std::chrono::seconds> timeout_of(const pmix_info_t infos[], std::size_t count);

// Returns PMIX_LOCAL_COLLECTIVE_STATUS, the result of the local ranks' part; PMIX_SUCCESS if it is
// missing.
pmix_status_t local_status_of(const pmix_info_t infos[], std::size_t count);

// Returns the ranks, ascending; an empty list for all ranks of the namespace. Returns nullopt if
// some are not of the namespace `nspace`.
std::optional<std::vector<std::uint32_t>> ranks_of(const pmix_proc_t procs[], std::size_t count,
                                                   std::string_view nspace);

// Returns whether a directive that is a switch is on.
bool is_on(const pmix_info_t infos[], std::size_t count, std::string_view key);

// Returns the value of a directive; nullptr if it is missing.
const pmix_value_t* find_value(const pmix_info_t infos[], std::size_t count, std::string_view key);

}  // namespace hvdrun
