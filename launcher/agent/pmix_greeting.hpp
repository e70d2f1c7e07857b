// The first message of a client of PMIx to its server, as far as we read it: which rank it is of.
// Clients of PMIx 2 to 5 send the same. A pure function, for any thread.
// Source: openpmix 4.2.2, src/mca/ptl/base/ptl_base_connection_hdlr.c and ptl_types.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hvdrun {

// Enough for any greeting: credentials are some bytes (munge: some hundred).
inline constexpr std::size_t kLargestPmixGreeting = 8192;

// Returns the rank. Returns nullopt if the bytes are not the whole greeting of a rank, but one of a
// tool, or a part of one.
std::optional<std::uint32_t> rank_of_pmix_greeting(std::string_view bytes);

}  // namespace hvdrun
