// libhvd for C++20: the C ABI of hvd.h with spans, types, futures and exceptions. Header only.
//
//   hvd::init();
//   hvd::allreduce(std::span(gradients), hvd::Op::sum, "gradients");   // in place
//   hvd::root_out() << "step " << step << '\n';                       // printed once
//   hvd::shutdown();
//
// Include this header; its parts are job.hpp (the job, ranks, process sets, errors),
// collectives.hpp, async.hpp (futures) and memory.hpp (buffers that need no copy). What a program
// reports to the launcher, and learns from it, is here.
//
// hvd.h says what each call does, which order and threads the calls need, and how they fail. Here a
// failure is an exception, hvd::Error, with the same status and text. These headers throw it, in
// the caller's own code, so no exception crosses the library's border.
#ifndef HVD_HVD_HPP_
#define HVD_HVD_HPP_

#include "hvd/async.hpp"
#include "hvd/collectives.hpp"
#include "hvd/hvd.h"
#include "hvd/job.hpp"
#include "hvd/memory.hpp"

#include <cstdint>
#include <iostream>
#include <optional>
#include <ostream>
#include <string>

namespace hvd {

// Which value of a metric is the best; see hvd_best.
enum class Best : hvd_best { none = HVD_BEST_NONE, min = HVD_BEST_MIN, max = HVD_BEST_MAX };

// Returns std::cout on rank 0, and on other ranks a stream that drops everything.
inline std::ostream& root_out() {
  thread_local std::ostream nowhere(nullptr);
  return rank() == 0 ? std::cout : nowhere;
}
[[deprecated("the new name is root_out")]] inline std::ostream& rank0() {
  return root_out();
}

// How far the training is; what is not known stays empty. See hvd_progress_values.
struct Progress {
  std::optional<std::int64_t> step = {};
  std::optional<std::int64_t> steps = {};
  std::optional<std::int64_t> samples = {};
  std::optional<std::int64_t> epoch = {};
  std::optional<std::int64_t> epochs = {};
  std::optional<double> loss = {};
};

// Reports how far the training is: progress({.step = 3, .steps = 100, .samples = 64, .loss = 0.1}).
// See hvd_progress.
inline void progress(const Progress& now) {
  hvd_progress_values values{};
  values.struct_size = sizeof values;
  const auto set = [&values](const auto& from, auto& to, std::uint32_t bit) {
    if (!from) return;
    to = *from;
    values.known |= bit;
  };
  set(now.step, values.step, HVD_PROGRESS_STEP);
  set(now.steps, values.steps, HVD_PROGRESS_STEPS);
  set(now.samples, values.samples, HVD_PROGRESS_SAMPLES);
  set(now.epoch, values.epoch, HVD_PROGRESS_EPOCH);
  set(now.epochs, values.epochs, HVD_PROGRESS_EPOCHS);
  set(now.loss, values.loss, HVD_PROGRESS_LOSS);
  detail::check(hvd_progress(&values));
}

// Sets how many training steps are done. See hvd_set_step.
inline void set_step(std::uint64_t step) {
  detail::check(hvd_set_step(step));
}
// Begins an epoch, counted from 0. See hvd_set_epoch.
inline void set_epoch(std::uint64_t epoch) {
  detail::check(hvd_set_epoch(epoch));
}
// Adds samples that this rank trained on. See hvd_add_samples.
inline void add_samples(std::uint64_t samples) {
  detail::check(hvd_add_samples(samples));
}
// Sets a metric of the training, such as "loss" or "accuracy". See hvd_set_metric.
inline void set_metric(const std::string& name, double value) {
  detail::check(hvd_set_metric(name.c_str(), value));
}
// Reports why this rank is about to end. Returns whether the launcher will show it; if not, the
// caller should. Never throws. See hvd_report_failure.
inline bool report_failure(const std::string& text) {
  return hvd_report_failure(text.c_str()) == HVD_OK;
}

// Returns the HVD_NOTICE_ bits that the launcher has set so far. See hvd_notice.
inline std::uint32_t notice() {
  std::uint32_t bits = 0;
  detail::check(hvd_notice(&bits, nullptr));
  return bits;
}

// Returns the seconds until the job must be over; infinity if that is not known. See hvd_time_left.
inline double time_left() {
  double seconds = 0;
  detail::check(hvd_time_left(&seconds));
  return seconds;
}

}  // namespace hvd

#endif  // HVD_HVD_HPP_
