// Learning rates for many ranks, for C++20: hvd/rates.h with exceptions (hvd::Error). Header only.
//
//   const double top = hvd::scale_rate(0.1, hvd::size(), hvd::Scaling::linear);
//   const double rate = hvd::warmup(0.1, top, step, 5 * steps_per_epoch);
#ifndef HVD_RATES_HPP_
#define HVD_RATES_HPP_

#include "hvd/hvd.hpp"
#include "hvd/rates.h"

#include <cstdint>
#include <string>

namespace hvd {

// See hvd_scaling.
enum class Scaling : hvd_scaling {
  none = HVD_SCALING_NONE,
  linear = HVD_SCALING_LINEAR,
  sqrt = HVD_SCALING_SQRT,
  two_thirds = HVD_SCALING_TWO_THIRDS,
};

// Returns the rate for `size` ranks, each with the batch for which `rate` was chosen on one rank.
inline double scale_rate(double rate, std::int64_t size, Scaling scaling) {
  double scaled = 0;
  detail::check(hvd_scale_rate(rate, size, static_cast<hvd_scaling>(scaling), &scaled));
  return scaled;
}

// Reads a name: "none", "linear", "sqrt" or "two-thirds".
inline Scaling parse_scaling(const std::string& name) {
  hvd_scaling scaling = HVD_SCALING_NONE;
  detail::check(hvd_parse_scaling(name.c_str(), &scaling));
  return static_cast<Scaling>(scaling);
}
inline std::string scaling_name(Scaling scaling) {
  const char* const name = hvd_scaling_name(static_cast<hvd_scaling>(scaling));
  return name == nullptr ? "unknown" : name;
}

// Returns the rate of a step: `from` at step 0, evenly up to `to` at step `steps`, then `to`.
inline double warmup(double from, double to, std::int64_t step, std::int64_t steps) {
  double rate = 0;
  detail::check(hvd_warmup(from, to, step, steps, &rate));
  return rate;
}

// Returns how many samples of a batch of all ranks are this rank's. Over all ranks these add up to
// the batch. See hvd_local_batch.
inline std::int64_t local_batch(std::int64_t batch, int rank, int size) {
  std::int64_t samples = 0;
  detail::check(hvd_local_batch(batch, rank, size, &samples));
  return samples;
}
// Does the same with this job's rank and size.
inline std::int64_t local_batch(std::int64_t batch) {
  return local_batch(batch, rank(), size());
}

}  // namespace hvd

#endif  // HVD_RATES_HPP_
