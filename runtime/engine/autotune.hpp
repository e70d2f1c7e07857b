// Autotune: a search for the limits of fusion with which the program's steps are shortest
// (HVD_AUTOTUNE). Rank 0 searches during the first seconds of training, and sends its choice to all
// ranks with its proposals (negotiation.hpp).
//
// A step is what completes from the first completion of a name until the next one of a name that
// the step already has. Only steps with the same names are compared, so steps that also validate,
// say, are left out. A sample is the median time of a few steps in a row. The search tries each
// candidate in turns, then compares the best one with the usual limits, in turns. It takes the best
// one only if that was shorter by 3 % and in most pairs. Otherwise it takes the usual limits.
//
// Tuner is a plain value, for the thread that drives the engine. The log is written there, too.
// Nothing here can fail after AutotuneLog::open().
#pragma once

#include "base/error.hpp"
#include "engine/settings.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace libhvd {

// The number of candidates. 0 are the usual limits.
std::uint8_t candidate_count();
// Returns the limits of a candidate below candidate_count(). `usual`: those of the environment.
FusionLimits limits_of(std::uint8_t candidate, const FusionLimits& usual);

class Tuner {
 public:
  // Gets each sample, and after the last one the choice: the candidate, and bytes a microsecond.
  using OnSample = std::function<void(std::uint8_t candidate, double score)>;
  explicit Tuner(OnSample on_sample) : on_sample_(std::move(on_sample)) {}

  // Records that a collective has completed. `name`: the hash of its name.
  void completed(std::uint64_t name, std::size_t bytes, std::uint64_t now_ns);
  // Leaves the running step out, because some ranks take no part in it.
  void skip_step();
  // Ends a search that has lasted too long, even if no step ends any more.
  void end_in_time(std::uint64_t now_ns);

  // Returns the candidate to use from the next round on.
  std::uint8_t choice() const { return choice_; }
  // Returns whether the search is over.
  bool over() const { return stage_ == Stage::over; }

 private:
  enum class Stage { warm_up, explore, compare, over };

  void end_step(std::uint64_t now_ns);
  void add_step(double ns);
  void end_sample(double ns);
  void end_round();
  void end_comparison();
  void finish(std::uint8_t candidate, double ns);
  void use(std::uint8_t candidate);

  OnSample on_sample_;
  Stage stage_ = Stage::warm_up;
  std::uint8_t choice_ = 0;
  std::uint64_t began_ns_ = 0;  // the search; 0: not yet

  // The running step.
  std::unordered_set<std::uint64_t> names_;
  std::uint64_t sum_of_names_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t step_began_ns_ = 0;
  bool left_out_ = true;  // it is not complete, or the choice has changed

  // The steps that are compared.
  std::uint64_t usual_names_ = 0;
  std::size_t usual_bytes_ = 0;
  int others_ = 0;  // steps in a row with other names

  std::vector<double> steps_;                // of the running sample, ns
  std::vector<std::uint8_t> candidates_;     // not given up
  std::size_t turn_ = 0;                     // which of them is tried
  std::vector<std::vector<double>> times_;   // of each candidate's samples, ns
  std::uint8_t best_ = 0;                    // compared with the usual limits
  std::optional<double> usual_ns_;           // of the running pair
  std::vector<double> best_times_, ratios_;  // of the pairs
};

// The file of HVD_AUTOTUNE_LOG. Copies share it. It has Horovod's columns, then the largest fused
// tensor in bytes.
class AutotuneLog {
 public:
  // Error: the file cannot be written.
  static Result<AutotuneLog> open(const std::string& path);
  void write(const FusionLimits& limits, double score);

 private:
  explicit AutotuneLog(std::FILE* file) : file_(file, std::fclose) {}
  std::shared_ptr<std::FILE> file_;
};

}  // namespace libhvd
