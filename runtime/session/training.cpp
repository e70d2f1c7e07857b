#include "session/training.hpp"

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace libhvd {

Result<void> average_metrics(Communicator& communicator, std::span<double> values, double weight,
                             CallOptions options) {
  if (options.fault.empty() && !(weight >= 0 && std::isfinite(weight)))
    options.fault =
        "the weight is " + std::to_string(weight) + "; it must be 0 or more, and finite";
  // The weights, and all values times their weight.
  std::vector<double> sums(values.size() + 1);
  sums.back() = weight;
  for (std::size_t i = 0; i < values.size() && weight != 0; ++i) sums[i] = weight * values[i];
  HVD_CHECK(
      communicator.allreduce(sums.data(), sums.data(), sums.size(), HVD_FLOAT64, HVD_SUM, options));
  if (sums.back() == 0)
    return fail(HVD_ERROR_INVALID_ARGUMENT, "the weights of all ranks are 0: nothing to average");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = sums[i] / sums.back();
  return {};
}

bool update_early_stopping(hvd_early_stopping& state, double metric) {
  const double sign = state.best_is == HVD_BEST_MAX ? -1 : 1;
  const double cost = sign * metric;
  const bool usable = !std::isnan(cost) && cost != -HUGE_VAL;
  // Before the first usable value `best` is not a number.
  if (state.updates == 0) state.best = std::nan("");
  const bool better =
      usable && (std::isnan(state.best) || cost < sign * state.best - state.min_delta);
  if (better) {
    state.best = metric;
    state.best_at = state.updates;
    state.waited = 0;
  } else {
    ++state.waited;
  }
  ++state.updates;
  return better;
}

namespace {

std::string fault_of(const hvd_early_stopping& state) {
  if (state.struct_size != sizeof state) return "struct_size must be sizeof(hvd_early_stopping)";
  if (state.best_is != HVD_BEST_MIN && state.best_is != HVD_BEST_MAX)
    return "best_is must be HVD_BEST_MIN or HVD_BEST_MAX";
  if (state.patience < 0) return "patience must be 0 or more";
  if (!(state.min_delta >= 0 && std::isfinite(state.min_delta)))
    return "min_delta must be 0 or more, and finite";
  return {};
}

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

Result<bool> agree_early_stopping(Communicator& communicator, hvd_early_stopping& state,
                                  double metric, CallOptions options) {
  if (options.fault.empty()) options.fault = fault_of(state);
  struct {
    hvd_early_stopping state;
    std::int64_t better;
  } decision{state, 0};
  if (communicator.rank() == 0 && options.fault.empty())
    decision.better = update_early_stopping(decision.state, metric) ? 1 : 0;
  HVD_CHECK(communicator.broadcast(&decision, sizeof decision, HVD_UINT8, 0, options));
  state = decision.state;
  return decision.better != 0;
}

Result<hvd_stop> agree_stop(Communicator& communicator, const StopSigns& own,
                            const CallOptions& options) {
  std::array<double, 5> signs{static_cast<double>(own.signum), own.notice ? 1.0 : 0.0,
                              own.time ? 1.0 : 0.0, own.wish ? 1.0 : 0.0, -own.seconds_left};
  HVD_CHECK(communicator.allreduce(signs.data(), signs.data(), signs.size(), HVD_FLOAT64, HVD_MAX,
                                   options));
  hvd_stop stop{};
  stop.struct_size = sizeof stop;
  stop.signum = static_cast<std::int32_t>(signs[0]);
  const std::array<std::uint32_t, 4> bits{HVD_STOP_SIGNAL, HVD_STOP_NOTICE, HVD_STOP_TIME,
                                          HVD_STOP_WISH};
  for (std::size_t i = 0; i < bits.size(); ++i) stop.reasons |= signs[i] != 0 ? bits[i] : 0;
  stop.seconds_left = -signs[4];
  return stop;
}

std::string describe_stop(const hvd_stop& stop) {
  std::string text;
  const auto add = [&](const std::string& reason) { text += (text.empty() ? "" : ", ") + reason; };
  if ((stop.reasons & HVD_STOP_SIGNAL) != 0) {
    const char* const name = ::sigabbrev_np(stop.signum);
    add("signal " + std::to_string(stop.signum) +
        (name == nullptr ? "" : " (SIG" + std::string(name) + ")"));
  }
  if ((stop.reasons & HVD_STOP_NOTICE) != 0) add("the launcher asked for it");
  if ((stop.reasons & HVD_STOP_TIME) != 0) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.0f", stop.seconds_left);
    add(std::string("time is nearly up (") + seconds + " s left)");
  }
  if ((stop.reasons & HVD_STOP_WISH) != 0) add("the program asked for it");
  return text;
}

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
