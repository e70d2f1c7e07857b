// Reads the text that NCCL's RAS answers to VERBOSE STATUS where it knows no JSON. Pure functions,
// for any thread.
//
// A group of ranks with the same count is listed, rank by rank, if it is smaller than half of its
// communicator. Of the others only the number is known, so they have no process here.
#pragma once

#include "look/nccl_state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// As parse_nccl_answer().
std::optional<std::vector<NcclCommunicator>> parse_nccl_text(const std::string& text);

}  // namespace hvdrun
