#include "common/system.hpp"

#include "common/fd.hpp"
#include "common/file_content.hpp"

#include <array>
#include <climits>
#include <string>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace common {

std::string local_host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string boot_id() {
  return first_line_of("/proc/sys/kernel/random/boot_id");
}

bool fill_random(std::span<std::uint8_t> bytes) {
  const auto size = static_cast<ssize_t>(bytes.size());
  if (::getrandom(bytes.data(), bytes.size(), 0) == size) return true;
  const Fd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  return device && ::read(device.get(), bytes.data(), bytes.size()) == size;
}

}  // namespace common
