#include "session/rates.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace libhvd {
namespace {

// Indexed by hvd_scaling.
constexpr std::array kNames{"none", "linear", "sqrt", "two-thirds"};

Error invalid(std::string message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::move(message));
}

Result<void> check_rate(double rate) {
  if (std::isfinite(rate) && rate >= 0) return {};
  return invalid("a learning rate of " + std::to_string(rate) + " makes no sense");
}

double factor(double size, hvd_scaling scaling) {
  switch (scaling) {
    case HVD_SCALING_LINEAR:
      return size;
    case HVD_SCALING_SQRT:
      return std::sqrt(size);
    case HVD_SCALING_TWO_THIRDS:
      return std::cbrt(size * size);
    default:
      return 1;
  }
}

}  // namespace

Result<double> scale_rate(double rate, std::int64_t size, hvd_scaling scaling) {
  HVD_CHECK(check_rate(rate));
  if (size < 1)
    return invalid("size is " + std::to_string(size) + "; a rate is scaled to at least 1 rank");
  if (scaling_name(scaling) == nullptr)
    return invalid("scaling is " + std::to_string(scaling) + ", which is none of HVD_SCALING_…");
  const double scaled = rate * factor(static_cast<double>(size), scaling);
  HVD_CHECK(check_rate(scaled));
  return scaled;
}

Result<double> warmup(double from, double to, std::int64_t step, std::int64_t steps) {
  HVD_CHECK(check_rate(from));
  HVD_CHECK(check_rate(to));
  if (step < 0) return invalid("step is " + std::to_string(step) + "; it must not be negative");
  if (steps < 0) return invalid("steps is " + std::to_string(steps) + "; it must not be negative");
  if (step >= steps) return to;
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  return from * (1 - done) + to * done;
}

Result<hvd_scaling> parse_scaling(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<hvd_scaling>(i);
  }
  return invalid("there is no scaling \"" + std::string(name) +
                 "\"; there are none, linear, sqrt and two-thirds");
}

const char* scaling_name(hvd_scaling scaling) {
  const auto index = static_cast<std::size_t>(scaling);
  return index < kNames.size() ? kNames[index] : nullptr;
}

}  // namespace libhvd
