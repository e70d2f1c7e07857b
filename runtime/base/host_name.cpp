#include "base/host_name.hpp"

#include <array>
#include <climits>

#include <hvd_contract/environment.h>
#include <unistd.h>

namespace libhvd {

std::string machine_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string host_name(const Environment& environment) {
  if (auto given = environment(HVD_ENV_HOSTNAME); given && !given->empty()) return *given;
  return machine_name();
}

}  // namespace libhvd
