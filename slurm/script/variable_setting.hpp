// One --set NAME=VALUE: a value for a variable of a template's own.
#pragma once

#include <string>

namespace hvdrun {

struct VariableSetting {
  std::string name;
  std::string value;
};

}  // namespace hvdrun
