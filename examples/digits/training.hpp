// Training on all ranks as if there were one: all that a program needs of hvd is in this file.
//
// Step k's batch is the same set of samples at every size; each rank works on its part of it, which
// may be empty, and every rank makes the same number of steps. Gradients and metrics are summed
// over the ranks and divided by the number of samples in the whole batch. So the losses do not
// depend on the number of ranks, except for the order of sums.
//
// After any end of the job, it can continue from its last checkpoint, with the losses of a run that
// was never interrupted: the checkpoint contains everything on which the next step depends. With
// hvdrun --min-np the same is true when a rank is lost: the others continue from their last step.
#pragma once

#include "dataset.hpp"
#include "network.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <hvd/agree.hpp>
#include <hvd/checkpoint.hpp>
#include <hvd/data.hpp>
#include <hvd/elastic.hpp>
#include <hvd/hvd.hpp>
#include <hvd/io.hpp>
#include <hvd/rates.hpp>
#include <hvd/timeline.hpp>

namespace digits {

// The options of a training, as command_line.hpp reads them.
struct Options {
  int epochs = 20;
  int batch = 64;  // samples in a step, of all ranks; with a scaling rule, of one rank
  double learning_rate = 0.1;
  hvd::Scaling scaling = hvd::Scaling::none;
  int warmup_epochs = 0;
  int hidden = 64;                // units of the hidden layer; 0: the network has no such option
  int patience = 0;               // epochs without a better validation loss; 0: no early stopping
  std::string checkpoint_folder;  // "": no checkpoints
  int keep = 3;                   // newest checkpoints
  bool resume = false;
  std::string log;         // "": none
  std::uint64_t seed = 1;  // of the first weights and of each epoch's order
  std::string data;        // "": the digits that came with the example
  bool quiet = false;      // only the last line
  bool help = false;
};

// Stochastic gradient descent with momentum, on all ranks together: all hold the same state and
// make the same updates, bit by bit. Optimizer is one on the CPU, ../digits_cuda has one for GPUs.
class Learner {
 public:
  static constexpr double kMomentum = 0.9;

  virtual ~Learner() = default;

  // All weights and biases, and the state of the updates. Each is contiguous, for broadcasts and
  // checkpoints.
  virtual std::span<double> parameters() = 0;
  virtual std::span<double> velocity() = 0;

  // For a learner whose parameters() and velocity() are copies: fetch() updates the copies, store()
  // takes the values over from them.
  virtual void fetch() {}
  virtual void store() {}

  // Makes one step on the ranks' parts of a batch of `batch_size` samples. Returns the sums over
  // the batch.
  virtual Sums step(const Dataset& dataset, Samples own_part, double batch_size,
                    double learning_rate) = 0;

  // Returns loss and hits over these samples.
  virtual Sums evaluate(const Dataset& dataset, Samples which) = 0;
};

// A Learner on the CPU, for any Model.
class Optimizer : public Learner {
 public:
  explicit Optimizer(std::unique_ptr<Model> model)
      : model_(std::move(model)),
        velocity_(model_->parameters().size()),
        sums_(velocity_.size() + 2) {
    reduction_.gradients = true;
  }

  std::span<double> parameters() override { return model_->parameters(); }
  std::span<double> velocity() override { return velocity_; }

  Sums step(const Dataset& dataset, Samples own_part, double batch_size,
            double learning_rate) override {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    const std::span<double> gradient(sums_.data(), velocity_.size());
    const Sums own = add_gradient(dataset, own_part, gradient);
    double* const metrics = sums_.data() + velocity_.size();
    metrics[0] = own.loss;
    metrics[1] = own.correct;

    // One call for everything that this step sums up.
    hvd::allreduce(sums_.span(), hvd::Op::sum, reduction_);

    const std::span<double> parameters = model_->parameters();
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - learning_rate * gradient[i] / batch_size;
      parameters[i] += velocity_[i];
    }
    return {metrics[0], metrics[1]};
  }

  Sums evaluate(const Dataset& dataset, Samples which) override {
    return model_->evaluate(dataset, which);
  }

 private:
  Sums add_gradient(const Dataset& dataset, Samples own_part, std::span<double> gradient) {
    const hvd::Span span("compute gradients");
    return model_->add_gradient(dataset, own_part, gradient);
  }

  std::unique_ptr<Model> model_;
  std::vector<double> velocity_;
  hvd::Buffer<double> sums_;  // the gradient, then loss and hits; in the host's shared memory
  hvd::Options reduction_{"gradients"};
};

// Means over the samples of all ranks.
struct Metrics {
  double loss = 0;
  double accuracy = 0;  // 0 to 1
};

// Evaluates each rank's part, and returns the means over all ranks.
inline Metrics evaluate(Learner& learner, const Dataset& dataset) {
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

// What a training came to.
struct Outcome {
  std::string stopped;  // the reason why it was asked to stop, "signal 15 (SIGTERM)"; otherwise ""
  Metrics test;         // if it was not
};

// The training loop, and the test after it. Rank 0 prints a line per epoch.
class Training {
 public:
  // Trains with the digits of that file.
  Training(Learner& learner, const std::string& data, const Options& options)
      : learner_(learner),
        data_(data),
        options_(options),
        size_(hvd::size()),
        batch_(options.scaling == hvd::Scaling::none ? options.batch
                                                     : std::int64_t{options.batch} * size_),
        early_stopping_({.best = hvd::Best::min, .patience = options.patience}) {
    progress_.batch = batch_;
    // Rank 0's weights go to all ranks, so that all begin with the same. When a rank is lost, the
    // newest go to all that are left.
    newest_.add("weights", learner.parameters()).add("velocity", learner.velocity());
    newest_.add("progress", progress_);
    early_stopping_.add_to(newest_, "early_stopping");
    if (options.checkpoint_folder.empty()) return;
    // Signals are handled at the end of a step, after a last checkpoint.
    hvd::watch_signal(SIGTERM);
    hvd::watch_signal(SIGUSR1);
  }

  // All that the ranks do together is in here. When one is lost, the others come here again, with
  // the state of the newest commit.
  Outcome run() {
    return hvd::elastic::run(newest_, [this] {
      open_files();
      Outcome outcome{train(), {}};
      if (outcome.stopped.empty()) outcome.test = evaluate(learner_, split_->test);
      return outcome;
    });
  }

 private:
  // Training stops if less time than this is left: enough to save a small network.
  static constexpr double kSecondsToSave = 10;

  // The progress of the training. With weights and velocity, all that the next step depends on.
  struct Progress {
    std::int64_t epoch = 0;
    std::int64_t step = 0;   // of this epoch
    std::int64_t steps = 0;  // in all
    std::int64_t batch = 0;  // the batch of these steps
    Sums sums;               // of this epoch so far
    bool resumed = false;    // from a checkpoint, if it was to
  };

  // Keeps the state for the case that a rank is lost. What was done since is done again. If new
  // ranks are ready, all ranks begin run() again, with them.
  void commit() {
    if (!hvd::elastic::is_elastic()) return;
    learner_.fetch();
    newest_.commit();
    hvd::elastic::check_updates();
  }

  // Reads the data and opens the files, with all ranks, unless all have done so.
  void open_files() {
    if (hvd::allreduce(split_ ? 1 : 0, hvd::Op::min) == 0) {
      if (!options_.log.empty()) log_.emplace(options_.log);
      if (!options_.checkpoint_folder.empty()) open_checkpoints();
      split_ = split_dataset(share_dataset(data_), options_.patience > 0);
    }
    if (checkpoints_ && !progress_.resumed && (options_.resume || hvd::restart_count() > 0)) {
      resume();
      progress_.resumed = true;
    }
    learner_.store();
    commit();
  }

  // Trains until options.epochs are done, the validation loss stops improving, or the job is asked
  // to stop. Then returns the reason, otherwise "".
  std::string train() {
    while (progress_.epoch < options_.epochs && !early_stopping_.should_stop()) {
      hvd::progress({.epoch = progress_.epoch, .epochs = options_.epochs});
      std::string stopped = run_epoch();
      if (!stopped.empty()) {
        save(std::nullopt);
        finish_saving();
        report("stopped after step " + std::to_string(progress_.steps) + ": " + stopped);
        return stopped;
      }
      end_epoch();
    }
    hvd::progress({.epoch = progress_.epoch});  // the last one is over
    finish_saving();
    return {};
  }

  void open_checkpoints() {
    state_ = {};
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
  }

  void resume() {
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

  // Returns the learning rate of a step: it rises from that for one rank to that for all.
  double learning_rate(std::int64_t steps_per_epoch) const {
    const double scaled = hvd::scale_rate(options_.learning_rate, size_, options_.scaling);
    return hvd::warmup(options_.learning_rate, scaled, progress_.steps,
                       options_.warmup_epochs * steps_per_epoch);
  }

  // Trains to the epoch's end, or until all ranks agree to stop; then returns the reason.
  std::string run_epoch() {
    hvd::Shard shard({.samples = split_->training.size(),
                      .batch = batch_,
                      .epoch = progress_.epoch,
                      .seed = options_.seed});
    while (progress_.step < shard.steps()) {
      const auto own_part = shard.step(progress_.step);
      const Sums sums = learner_.step(split_->training, own_part,
                                      static_cast<double>(shard.batch_size(progress_.step)),
                                      learning_rate(shard.steps()));
      progress_.sums.loss += sums.loss;
      progress_.sums.correct += sums.correct;
      ++progress_.step;
      ++progress_.steps;
      hvd::progress({.step = progress_.steps, .samples = std::ssize(own_part)});
      commit();
      if (!checkpoints_) continue;
      const auto steps = static_cast<std::uint64_t>(progress_.steps);
      if (const auto stop = hvd::agree_stop(steps, {.seconds_needed = kSecondsToSave}))
        return stop.text();
    }
    return {};
  }

  void end_epoch() {
    const Sums sums = progress_.sums;
    progress_.sums = {};
    progress_.step = 0;
    ++progress_.epoch;
    const auto samples = static_cast<double>(split_->training.size());
    double metric = sums.loss / samples;
    hvd::progress({.loss = metric});
    std::ostringstream line;
    line << "epoch " << progress_.epoch << std::fixed << " loss " << std::setprecision(9) << metric
         << " train accuracy " << std::setprecision(1) << 100 * sums.correct / samples << " %";
    if (split_->validation.size() > 0) {
      metric = evaluate(learner_, split_->validation).loss;
      const bool best = early_stopping_.update(metric);
      line << " validation loss " << std::setprecision(4) << metric << (best ? " (best)" : "");
    }
    report(line.str());
    save(metric);
    commit();
    if (early_stopping_.should_stop())
      report("stopping early: no better validation loss for " + std::to_string(options_.patience) +
             " epochs");
  }

  void report(const std::string& line) {
    if (log_) *log_ << line << std::endl;
    if (!options_.quiet) hvd::root_out() << line << std::endl;
  }

  // Waits for the last checkpoint. It has the result of the training, so its failure is the
  // program's.
  void finish_saving() {
    if (!checkpoints_) return;
    checkpoints_->wait();
    if (last_failure_) throw *last_failure_;
  }

  // Saves a checkpoint. An error is only printed, so that the training continues: the next
  // checkpoint may succeed.
  void save(std::optional<double> metric) {
    if (!checkpoints_) return;
    last_failure_.reset();
    const hvd::Span span("checkpoint");
    learner_.fetch();
    try {
      checkpoints_->save(state_, static_cast<std::uint64_t>(progress_.steps), metric);
    } catch (const hvd::Error& error) {
      if (error.status() != HVD_ERROR_SYSTEM) throw;
      if (hvd::rank() == 0) std::cerr << "not saved: " << error.what() << std::endl;
      last_failure_ = error;
    }
  }

  Learner& learner_;
  std::string data_;  // the file
  const Options& options_;
  int size_;            // at the start: batch and learning rate stay when ranks are lost
  std::int64_t batch_;  // of all ranks together
  std::optional<Split> split_;
  Progress progress_;
  hvd::EarlyStopping early_stopping_;
  std::optional<hvd::Log> log_;
  hvd::elastic::State newest_;  // when a rank is lost
  hvd::State state_;            // of checkpoints
  std::optional<hvd::Checkpoints> checkpoints_;
  std::optional<hvd::Error> last_failure_;  // of the last save()
};

}  // namespace digits
