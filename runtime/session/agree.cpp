#include "session/agree.hpp"

#include "common/signal_abbreviation.hpp"

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace libhvd {
namespace {

// Returns what is wrong with the settings; "" if nothing is.
std::string fault_of(const hvd_early_stopping& state) {
  if (state.struct_size != sizeof state) return "struct_size must be sizeof(hvd_early_stopping)";
  if (state.mode != HVD_BEST_MIN && state.mode != HVD_BEST_MAX)
    return "mode must be HVD_BEST_MIN or HVD_BEST_MAX";
  if (state.patience < 0) return "patience must be 0 or more";
  if (!(state.min_delta >= 0 && std::isfinite(state.min_delta)))
    return "min_delta must be 0 or more, and finite";
  return {};
}

}  // namespace

Result<void> average_metrics(Communicator& communicator, std::span<double> values, double weight,
                             CallOptions options) {
  if (options.fault.empty() && !(weight >= 0 && std::isfinite(weight)))
    options.fault =
        "the weight is " + std::to_string(weight) + "; it must be 0 or more, and finite";
  // All values times the weight, then the weight.
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
  const double sign = state.mode == HVD_BEST_MAX ? -1 : 1;
  const double cost = sign * metric;
  const bool usable = !std::isnan(cost) && cost != -HUGE_VAL;
  // `best` is NaN before the first usable value.
  if (state.updates == 0) state.best = std::nan("");
  const bool better =
      usable && (std::isnan(state.best) || cost < sign * state.best - state.min_delta);
  if (better) {
    state.best = metric;
    state.best_at = state.updates;
    state.updates_since_best = 0;
  } else {
    ++state.updates_since_best;
  }
  ++state.updates;
  return better;
}

Result<bool> agree_early_stopping(Communicator& communicator, hvd_early_stopping& state,
                                  double metric, CallOptions options) {
  if (options.fault.empty()) options.fault = fault_of(state);
  // Rank 0, the root of a broadcast with a name, learns of another rank's fault.
  if (options.name == nullptr) options.name = "early_stopping";
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
                              own.time ? 1.0 : 0.0, own.requested ? 1.0 : 0.0, -own.seconds_left};
  HVD_CHECK(communicator.allreduce(signs.data(), signs.data(), signs.size(), HVD_FLOAT64, HVD_MAX,
                                   options));
  hvd_stop stop{};
  stop.struct_size = sizeof stop;
  stop.signum = static_cast<std::int32_t>(signs[0]);
  const std::array<std::uint32_t, 4> bits{HVD_STOP_SIGNAL, HVD_STOP_NOTICE, HVD_STOP_TIME,
                                          HVD_STOP_REQUESTED};
  for (std::size_t i = 0; i < bits.size(); ++i) stop.reasons |= signs[i] != 0 ? bits[i] : 0;
  stop.seconds_left = -signs[4];
  return stop;
}

std::string describe_stop(const hvd_stop& stop) {
  std::string text;
  const auto add = [&](const std::string& reason) { text += (text.empty() ? "" : ", ") + reason; };
  if ((stop.reasons & HVD_STOP_SIGNAL) != 0) {
    const char* const name = common::signal_abbreviation(stop.signum);
    add("signal " + std::to_string(stop.signum) +
        (name == nullptr ? "" : " (SIG" + std::string(name) + ")"));
  }
  if ((stop.reasons & HVD_STOP_NOTICE) != 0) add("the launcher asked for it");
  if ((stop.reasons & HVD_STOP_TIME) != 0) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.0f", stop.seconds_left);
    add(std::string("time is nearly up (") + seconds + " s left)");
  }
  if ((stop.reasons & HVD_STOP_REQUESTED) != 0) add("the program asked for it");
  return text;
}

}  // namespace libhvd
