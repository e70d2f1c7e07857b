// Reads what NCCL's RAS answers to VERBOSE STATUS: JSON since NCCL 2.28.7, text since 2.24. The
// text only has what differs within a communicator. Pure functions, for any thread.
//
// Source: NCCL, User Guide, "RAS"; NCCL's src/ras/client_support.cc.
#pragma once

#include "look/nccl_state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the communicators that are uneven; see NcclCommunicator. Leaves out those that begin or
// end, and those of which the text leaves open which process has called how many. nullopt: it is
// no answer of RAS, or only a part of one.
std::optional<std::vector<NcclCommunicator>> parse_nccl_answer(const std::string& answer);

// Returns a line of hvdrun-look with these communicators.
std::string nccl_json(const std::vector<NcclCommunicator>& communicators);
// Returns the communicators of such a line; nullopt: it is another line.
std::optional<std::vector<NcclCommunicator>> parse_nccl(const std::string& line);

}  // namespace hvdrun
