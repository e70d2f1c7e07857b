#include "common/cache.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include <sched.h>

namespace common {
namespace {

// Returns the bytes in "512K" or "8192K"; 0 for other text.
std::size_t parse_size(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && *end == 'K' ? number * 1024 : 0;
}

// Returns how many bits are set in "00000000,00000003", at least 1.
int count_bits(const std::string& mask) {
  int bits = 0;
  for (const char& digit : mask) {
    unsigned value = 0;
    std::from_chars(&digit, &digit + 1, value, 16);
    bits += std::popcount(value);
  }
  return std::max(bits, 1);
}

}  // namespace

Cache largest_cache() {
  const std::string caches =
      "/sys/devices/system/cpu/cpu" + std::to_string(::sched_getcpu()) + "/cache/index";
  Cache largest;
  for (int index = 0;; ++index) {
    const std::string folder = caches + std::to_string(index);
    const std::string size = first_line_of(folder + "/size");
    if (size.empty()) return largest;
    if (const std::size_t bytes = parse_size(size); bytes > largest.bytes)
      largest = {bytes, count_bits(first_line_of(folder + "/shared_cpu_map"))};
  }
}

}  // namespace common
