// What the ranks agree on before and after each does its part of a save or a load. Every function
// but call_options() is a collective of the communicator and runs on the caller's thread.
//
// A rank that has found an error must still call these functions, or the others wait for it. Where
// nothing else is said, an error is the communicator's own: a collective failed.
#pragma once

#include "base/error.hpp"
#include "checkpoint/item.hpp"
#include "collective/communicator.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace libhvd::checkpoint {

// Returns the outcome of the lowest rank that failed, on all ranks; success if none has failed. On
// the other ranks the message begins with "rank R: ".
Result<void> agree(Communicator& communicator, const Result<void>& own);

// Like agree(), but returns that failure as the value. Error: the communicator's own.
Result<std::optional<Error>> first_failure(Communicator& communicator, const Result<void>& own);

// Checks that all ranks have the same number. Error: HVD_ERROR_MISMATCH with the text `mismatch`.
Result<void> agree_on(Communicator& communicator, std::uint64_t number, const char* mismatch);

// Checks that all ranks have the same parts in the same order. Error: HVD_ERROR_MISMATCH with the
// differences. `exact`: see find_differences.
Result<void> agree_on_state(Communicator& communicator, std::span<const Description> parts,
                            bool exact);

// Returns whether all ranks have the same number.
Result<bool> same_everywhere(Communicator& communicator, std::int64_t number);

// Returns whether `own` is true on all ranks.
Result<bool> true_everywhere(Communicator& communicator, bool own);

// Returns rank 0's number on all ranks.
Result<std::uint64_t> share_number(Communicator& communicator, std::uint64_t number);
// Replaces the bytes by rank 0's, whatever their length.
Result<void> share_bytes(Communicator& communicator, std::string& bytes);

// Returns the options of the collectives of a checkpoint: their name for messages.
const CallOptions& call_options();

}  // namespace libhvd::checkpoint
