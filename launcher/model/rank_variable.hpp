// A variable of a rank's environment, and why it has it. A plain value.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

struct RankVariable {
  std::string name;
  std::string value;
  std::string_view reason;  // for --print-env; empty for a variable of the caller's
};

}  // namespace hvdrun
