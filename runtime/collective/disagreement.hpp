// Finds out why the ranks' calls do not fit together, from the details of all of them. Pure
// functions. Each returns the same on all ranks, because all ranks see the same details.
#pragma once

#include "base/error.hpp"
#include "collective/call.hpp"

#include <optional>
#include <span>

namespace libhvd {

// Returns the error of these calls: a rank has a fault, or ranks called different things. Returns
// nullopt if the calls fit together. `all_details`: one for each rank, by rank.
std::optional<Error> find_disagreement(std::span<const CallDetails* const> all_details);

// The same where some of the calls are joins, but not all. Returns nullopt if the others' call can
// continue with zeros for the ranks that have joined.
std::optional<Error> find_disagreement_with_joined(std::span<const CallDetails* const> all_details);

}  // namespace libhvd
