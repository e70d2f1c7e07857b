// Decisions that all ranks take together, for C++20: hvd/agree.h with exceptions (hvd::Error).
// Header only.
//
//   double metrics[] = {loss, accuracy};
//   hvd::average_metrics(metrics, samples_here);
//   if (early_stopping.update(metrics[0])) save_the_best();
//   if (early_stopping.should_stop()) break;
//   if (const hvd::Stop stop = hvd::agree_stop(step, {.seconds_needed = 60})) save_and_leave();
#ifndef HVD_AGREE_HPP_
#define HVD_AGREE_HPP_

#include "hvd/agree.h"
#include "hvd/hvd.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace hvd {

// Averages values over all ranks, in place. A collective. See hvd_average_metrics.
inline void average_metrics(std::span<double> values, double weight,
                            const std::string& name = "metrics") {
  const hvd_options options = detail::named(name);
  detail::check(hvd_average_metrics(values.data(), values.size(), weight, &options));
}

struct EarlyStoppingOptions {
  Best best = Best::min;
  std::int64_t patience = 0;  // updates in a row without a better value; 0: never stop
  double min_delta = 0;       // a value is better if it beats the best by more than this
};

// Watches whether a metric still gets better; see hvd_early_stopping.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options) {
    state_.struct_size = sizeof state_;
    state_.mode = static_cast<hvd_best>(options.best);
    state_.patience = options.patience;
    state_.min_delta = options.min_delta;
  }

  // Adds a value and returns whether it is the best so far. A collective: rank 0's metric decides.
  bool update(double metric, const std::string& name = "early_stopping") {
    const hvd_options options = detail::named(name);
    int is_best = 0;
    detail::check(hvd_early_stopping_update(&state_, metric, &is_best, nullptr, &options));
    return is_best != 0;
  }

  // Returns whether `patience` updates in a row brought no better value.
  bool should_stop() const {
    return state_.patience > 0 && state_.updates_since_best >= state_.patience;
  }
  double best() const { return state_.best; }
  std::int64_t best_at() const { return state_.best_at; }  // the update, counted from 0
  std::int64_t updates() const { return state_.updates; }
  std::int64_t updates_since_best() const { return state_.updates_since_best; }

  // Adds the values that a resumed run needs to a checkpoint's state (hvd::State).
  template <class State>
  void add_to(State& state, const std::string& prefix) {
    state.add(prefix + ".updates", state_.updates);
    state.add(prefix + ".best_at", state_.best_at);
    state.add(prefix + ".best", state_.best);
    state.add(prefix + ".waited", state_.updates_since_best);  // checkpoints keep the old name
  }

 private:
  hvd_early_stopping state_{};
};

// Remembers a signal for agree_stop instead of letting it end the process. See hvd_watch_signal.
inline void watch_signal(int signum) {
  detail::check(hvd_watch_signal(signum));
}

struct StopOptions {
  double seconds_needed = 0;  // stop when less time is left; see hvd_agree_stop
  bool requested = false;     // this rank's program wants to stop
  bool wish = false;          // deprecated: another name of `requested`
};

// The decision of agree_stop: true if all ranks stop here.
class Stop {
 public:
  explicit Stop(const hvd_stop& stop) : stop_(stop) {}
  explicit operator bool() const { return stop_.reasons != 0; }
  std::uint32_t reasons() const { return stop_.reasons; }  // HVD_STOP_ bits
  int signum() const { return stop_.signum; }
  double seconds_left() const { return stop_.seconds_left; }
  // Returns the reasons in words, "signal 15 (SIGTERM)".
  std::string text() const {
    std::array<char, 256> text{};
    detail::check(hvd_stop_text(&stop_, text.data(), text.size()));
    return text.data();
  }

 private:
  hvd_stop stop_;
};

// Decides at the end of a step whether all ranks stop. A collective. See hvd_agree_stop.
inline Stop agree_stop(std::uint64_t step, const StopOptions& how = {},
                       const std::string& name = "agree_stop") {
  const hvd_options options = detail::named(name);
  hvd_stop stop{};
  stop.struct_size = sizeof stop;
  detail::check(
      hvd_agree_stop(step, how.seconds_needed, how.requested || how.wish ? 1 : 0, &stop, &options));
  return Stop(stop);
}

}  // namespace hvd

#endif  // HVD_AGREE_HPP_
