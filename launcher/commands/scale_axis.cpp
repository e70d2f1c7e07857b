#include "commands/scale_axis.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace hvdrun::scale {
namespace {

constexpr double kTicks = 5;
constexpr std::size_t kMostTicks = 8;

// Returns the least of 1, 2 or 5 times a power of ten that is at least `size`.
double round_step(double size) {
  const double power = std::pow(10, std::floor(std::log10(size)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= size * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

bool is_wide(double least, double most) {
  return most > 8 * least;
}

Axis Axis::from_zero(double most) {
  const bool is_drawable = std::isfinite(most) && most > 0;
  const double step = round_step((is_drawable ? most : 1) / kTicks);
  const int steps = static_cast<int>(std::ceil((is_drawable ? most : 1) / step - 1e-9));
  Axis axis(0, step * steps, false);
  for (int i = 0; i <= steps; ++i) axis.ticks_.push_back(step * i);
  return axis;
}

Axis Axis::between(double least, double most) {
  const bool wide = is_wide(least, most);
  // Leaves 8 % of the range at both ends; for a single value, the value itself.
  if (wide) {
    const double margin = std::pow(most / least, 0.08);
    return Axis(least / margin, most * margin, true);
  }
  const double margin = most > least ? 0.08 * (most - least) : most;
  return Axis(least - margin, most + margin, false);
}

Axis Axis::logarithmic(double least, double most) {
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(least)));
       ticks.empty() || ticks.back() < most * (1 - 1e-9); ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if (tick <= least * (1 + 1e-9)) ticks.clear();
      if (ticks.empty() || ticks.back() < most * (1 - 1e-9)) ticks.push_back(tick);
    }
  }
  if (ticks.size() == 1) ticks.push_back(2 * ticks.front());
  Axis axis(ticks.front(), ticks.back(), true);
  if (ticks.size() > kMostTicks)
    std::erase_if(ticks, [](double tick) {
      const double power = std::log10(tick);
      return std::abs(power - std::round(power)) > 1e-6;
    });
  axis.ticks_ = std::move(ticks);
  return axis;
}

double Axis::place(double value) const {
  if (logarithmic_) return std::log(value / begin_) / std::log(end_ / begin_);
  return (value - begin_) / (end_ - begin_);
}

}  // namespace hvdrun::scale
