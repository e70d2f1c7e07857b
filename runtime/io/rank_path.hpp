// File names of which every rank has its own.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/rank_info.hpp"

#include <string>

namespace libhvd {

// Fills in the words of hvd_rank_path (hvd/io.h). Error: an unknown word, a brace that is not
// closed, or a pattern that gives several ranks the same path.
Result<std::string> rank_path(const std::string& pattern, const Topology& topology,
                              const Environment& environment);

}  // namespace libhvd
