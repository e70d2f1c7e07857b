// "1 host", "4 hosts": a number with its thing, for messages.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace hvdrun {

inline std::string counted(std::integral auto count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace hvdrun
