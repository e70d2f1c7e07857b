// "did you mean …?": the known name that a mistyped one most likely stands for.
#pragma once

#include <string_view>
#include <vector>

namespace hvdrun {

// The candidate with the fewest slips (a letter missing, added, changed, or two swapped) from
// `name`, the first of equals; a candidate that begins with `name` counts as one slip. Empty when
// none is near enough: at most a third of the name's length.
std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates);

}  // namespace hvdrun
