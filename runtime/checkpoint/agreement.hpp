// What the ranks agree on before and after each does its part: collectives made of a communicator's
// own. A rank that finds something wrong must still come here, or the others wait for it.
#pragma once

#include "base/result.hpp"
#include "checkpoint/item.hpp"
#include "collective/communicator.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace libhvd::checkpoint {

// The outcome of the lowest rank that failed, on all ranks; "rank R: " before the text of a rank
// that is not this one. Done when none has failed.
Outcome agree(Communicator& communicator, const Outcome& own);

// The same, but apart from what the communicator says, which alone is an error here.
Result<std::optional<Error>> first_failure(Communicator& communicator, const Outcome& own);

// Done when all ranks have the same number, else HVD_ERROR_MISMATCH with this text.
Outcome agree_on(Communicator& communicator, std::uint64_t number, const char* mismatch);

// Done when all ranks have the same parts in the same order, else HVD_ERROR_MISMATCH with what
// differs. `exact`: see find_differences.
Outcome agree_on_state(Communicator& communicator, std::span<const Description> parts, bool exact);

// Whether all ranks have the same number.
Result<bool> same_everywhere(Communicator& communicator, std::int64_t number);

// Whether it holds on all ranks.
Result<bool> true_everywhere(Communicator& communicator, bool own);

// Rank 0's number and bytes, on all ranks.
Result<std::uint64_t> share_number(Communicator& communicator, std::uint64_t number);
Outcome share_bytes(Communicator& communicator, std::string& bytes);

// The options of the collectives here: a name for messages.
const CallOptions& call_options();

}  // namespace libhvd::checkpoint
