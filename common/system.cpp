#include "common/system.hpp"

#include <array>
#include <climits>
#include <fstream>
#include <string>

#include <sys/random.h>
#include <unistd.h>

namespace common {

std::string local_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

bool fill_random(std::span<std::uint8_t> bytes) {
  return ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

}  // namespace common
