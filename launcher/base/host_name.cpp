#include "base/host_name.hpp"

#include <array>
#include <climits>

#include <unistd.h>

namespace hvdrun {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace hvdrun
