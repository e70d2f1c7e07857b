// Cuts the output of SLURM's commands into lines and fields. For any thread.
#pragma once

#include <string_view>

namespace hvdrun {

// Removes the text up to the first `end`, and that character, from `from`, and returns the text
// without it. Takes all of `from` if there is no `end` in it.
inline std::string_view take_field(std::string_view& from, char end) {
  const auto at = from.find(end);
  const auto field = from.substr(0, at);
  from.remove_prefix(at == std::string_view::npos ? from.size() : at + 1);
  return field;
}

}  // namespace hvdrun
