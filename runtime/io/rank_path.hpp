// Makes file names from a pattern, a different one on each rank. Pure except for {host}, which may
// ask the system for its name. Any thread.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "bootstrap/rank_topology.hpp"

#include <string>

namespace libhvd {

// Replaces the words of hvd_rank_path (hvd/io.h) in the pattern. Error: an unknown word, a brace
// that is not closed, or a pattern that gives several ranks the same path.
Result<std::string> rank_path(const std::string& pattern, const Topology& topology,
                              const Environment& environment);

}  // namespace libhvd
