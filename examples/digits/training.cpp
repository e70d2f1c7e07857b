#include "training.hpp"

#include <array>
#include <csignal>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>

#include <hvd/agree.hpp>
#include <hvd/checkpoint.hpp>
#include <hvd/data.hpp>
#include <hvd/io.hpp>
#include <hvd/rates.hpp>
#include <hvd/timeline.hpp>

namespace digits {
namespace {

// Training stops if less time than this is left: enough to save a small network.
constexpr double kSecondsToSave = 10;

// The progress of the training. With weights and velocity, all that the next step depends on.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step = 0;   // of this epoch
  std::int64_t steps = 0;  // in all
  std::int64_t batch = 0;  // the batch of these steps
  Sums sums;               // of this epoch so far
};

class Training {
 public:
  Training(Learner& learner, const Split& split, const Options& options);

  std::string run();

 private:
  void open_checkpoints();
  void resume();
  double learning_rate(std::int64_t steps_per_epoch) const;
  std::string run_epoch();
  void end_epoch();
  void report(const std::string& line);
  void save(std::optional<double> metric);

  Learner& learner_;
  const Split& split_;
  const Options& options_;
  std::int64_t batch_;  // of all ranks together
  Progress progress_;
  hvd::EarlyStopping early_stopping_;
  std::optional<hvd::Log> log_;
  hvd::State state_;
  std::optional<hvd::Checkpoints> checkpoints_;
};

Training::Training(Learner& learner, const Split& split, const Options& options)
    : learner_(learner),
      split_(split),
      options_(options),
      batch_(options.scaling == hvd::Scaling::none ? options.batch
                                                   : std::int64_t{options.batch} * hvd::size()),
      early_stopping_({.best = hvd::Best::min, .patience = options.patience}) {
  progress_.batch = batch_;
  if (!options.log.empty()) log_.emplace(options.log);
  if (!options.checkpoint_folder.empty()) open_checkpoints();
  // Rank 0's weights on all ranks, so that all begin with the same.
  hvd::broadcast(learner.parameters(), 0, "weights");
  learner.store();
}

void Training::open_checkpoints() {
  state_.add("weights", learner_.parameters());
  state_.add("velocity", learner_.velocity());
  state_.add("epoch", progress_.epoch);
  state_.add("step", progress_.step);
  state_.add("steps", progress_.steps);
  state_.add("batch", progress_.batch);
  state_.add("epoch.loss", progress_.sums.loss);
  state_.add("epoch.correct", progress_.sums.correct);
  early_stopping_.add_to(state_, "early_stopping");
  checkpoints_.emplace(options_.checkpoint_folder, hvd::CheckpointOptions{
                                                       .keep_last = options_.keep,
                                                       .best = hvd::Best::min,
                                                   });
  // Signals are handled at the end of a step, after a last checkpoint.
  hvd::watch_signal(SIGTERM);
  hvd::watch_signal(SIGUSR1);
  if (options_.resume || hvd::restart_count() > 0) resume();
}

void Training::resume() {
  const auto loaded = checkpoints_->load(state_);
  if (!loaded) return;
  std::ostringstream line;
  line << "continuing from " << loaded->path << ", step " << loaded->step;
  report(line.str());
  if (progress_.batch == batch_) return;
  // With another batch the steps of this epoch are different.
  progress_.batch = batch_;
  progress_.step = 0;
  progress_.sums = {};
}

// The learning rate of a step: rises from that for one rank to that for all.
double Training::learning_rate(std::int64_t steps_per_epoch) const {
  const double scaled = hvd::scale_rate(options_.learning_rate, hvd::size(), options_.scaling);
  return hvd::warmup(options_.learning_rate, scaled, progress_.steps,
                     options_.warmup_epochs * steps_per_epoch);
}

std::string Training::run() {
  while (progress_.epoch < options_.epochs && !early_stopping_.should_stop()) {
    hvd::set_epoch(static_cast<std::uint64_t>(progress_.epoch));
    std::string stopped = run_epoch();
    if (!stopped.empty()) {
      save(std::nullopt);
      checkpoints_->wait();
      report("stopped after step " + std::to_string(progress_.steps) + ": " + stopped);
      return stopped;
    }
    end_epoch();
  }
  hvd::set_epoch(static_cast<std::uint64_t>(progress_.epoch));  // the last one is over
  if (checkpoints_) checkpoints_->wait();
  return {};
}

// Trains to the epoch's end, or until all ranks agree to stop; then returns the reason.
std::string Training::run_epoch() {
  hvd::Shard shard({.samples = split_.training.size(),
                    .batch = batch_,
                    .epoch = progress_.epoch,
                    .seed = options_.seed});
  while (progress_.step < shard.steps()) {
    const auto own_part = shard.step(progress_.step);
    const Sums sums = learner_.step(split_.training, own_part,
                                    static_cast<double>(shard.batch_size(progress_.step)),
                                    learning_rate(shard.steps()));
    progress_.sums.loss += sums.loss;
    progress_.sums.correct += sums.correct;
    ++progress_.step;
    ++progress_.steps;
    const auto steps = static_cast<std::uint64_t>(progress_.steps);
    hvd::set_step(steps);
    hvd::add_samples(own_part.size());
    if (!checkpoints_) continue;
    if (const auto stop = hvd::agree_stop(steps, {.seconds_needed = kSecondsToSave}))
      return stop.text();
  }
  return {};
}

void Training::end_epoch() {
  const Sums sums = progress_.sums;
  progress_.sums = {};
  progress_.step = 0;
  ++progress_.epoch;
  const auto samples = static_cast<double>(split_.training.size());
  double metric = sums.loss / samples;
  hvd::set_metric("loss", metric);
  std::ostringstream line;
  line << "epoch " << progress_.epoch << std::fixed << " loss " << std::setprecision(9) << metric
       << " train accuracy " << std::setprecision(1) << 100 * sums.correct / samples << " %";
  if (split_.validation.size() > 0) {
    metric = evaluate(learner_, split_.validation).loss;
    const bool best = early_stopping_.update(metric);
    line << " validation loss " << std::setprecision(4) << metric << (best ? " (best)" : "");
  }
  report(line.str());
  save(metric);
  if (early_stopping_.should_stop())
    report("stopping early: no better validation loss for " + std::to_string(options_.patience) +
           " epochs");
}

void Training::report(const std::string& line) {
  if (log_) *log_ << line << std::endl;
  if (!options_.quiet) hvd::root_out() << line << std::endl;
}

// Saves a checkpoint. An error is only printed, so that the training continues.
void Training::save(std::optional<double> metric) {
  if (!checkpoints_) return;
  const hvd::Span span("checkpoint");
  learner_.fetch();
  try {
    checkpoints_->save(state_, static_cast<std::uint64_t>(progress_.steps), metric);
  } catch (const hvd::Error& error) {
    if (error.status() != HVD_ERROR_SYSTEM) throw;
    if (hvd::rank() == 0) std::cerr << "continuing without: " << error.what() << std::endl;
  }
}

}  // namespace

std::string train(Learner& learner, const Split& split, const Options& options) {
  return Training(learner, split, options).run();
}

Metrics evaluate(Learner& learner, const Dataset& dataset) {
  const hvd::Span span("evaluate");
  hvd::Shard shard({.samples = dataset.size(), .batch = dataset.size(), .shuffle = false});
  const auto own_part = shard.step(0);
  const Sums own = learner.evaluate(dataset, own_part);
  const auto samples = static_cast<double>(own_part.size());
  // This rank's means, weighted by its number of samples; a rank without samples has weight 0.
  std::array<double, 2> means{own.loss / samples, own.correct / samples};
  hvd::average_metrics(means, samples, "evaluation");
  return {means[0], means[1]};
}

}  // namespace digits
