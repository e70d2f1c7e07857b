// Chooses the quicker of two ways to do the same, by how long each took for about as many bytes.
// Processors differ too much for a constant: two hyperthreads share the caches that two cores do
// not. Plain values; they cannot fail.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace libhvd {

class QuickerWay {
 public:
  // Returns the way for the next call, 0 or 1. The first calls of about as many bytes try both, and
  // two of every kPeriod calls try the slower one again.
  int choose(std::size_t bytes) const {
    const Size& size = of(bytes);
    if (size.calls < 2 * kTrials) return size.calls < kTrials ? 0 : 1;
    const int quicker = size.ns_per_mib[1] < size.ns_per_mib[0] ? 1 : 0;
    return size.calls % kPeriod < 2 ? 1 - quicker : quicker;
  }

  // Records that the call which choose() was asked for took that long.
  void record(std::size_t bytes, int way, std::uint64_t ns) {
    Size& size = of(bytes);
    const std::uint64_t call = size.calls++;
    if (call == 0 || call == kTrials) return;  // warms up
    const double now = static_cast<double>(ns) * (1 << 20) / static_cast<double>(bytes);
    double& time = size.ns_per_mib[static_cast<std::size_t>(way)];
    // A call that another program delayed says little, a quick one much.
    time = time == 0 ? now : std::min(now, 0.75 * time + 0.25 * now);
  }

 private:
  static constexpr std::uint64_t kTrials = 3;  // of each way; the first one only warms up
  static constexpr std::uint64_t kPeriod = 256;

  // The calls whose bytes have the same number of binary digits.
  struct Size {
    std::uint64_t calls = 0;
    std::array<double, 2> ns_per_mib{};  // 0: not measured
  };

  const Size& of(std::size_t bytes) const {
    return sizes_[static_cast<std::size_t>(std::bit_width(bytes))];
  }
  Size& of(std::size_t bytes) { return sizes_[static_cast<std::size_t>(std::bit_width(bytes))]; }

  std::array<Size, 65> sizes_;
};

}  // namespace libhvd
