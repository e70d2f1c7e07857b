#include "base/random.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <sys/random.h>

namespace hvdrun {

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  // Up to 256 bytes come whole and without interruption once the kernel's pool is ready.
  if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) std::abort();
  return fmt::format("{:02x}", fmt::join(raw, ""));
}

}  // namespace hvdrun
