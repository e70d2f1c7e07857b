#include "engine/autotune.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <numeric>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// The candidates from 1 on.
constexpr FusionLimits kCandidates[] = {
    {.together = 0, .each = 0},
    {.together = 64 * kKiB, .each = 16 * kKiB},
    {.together = 256 * kKiB, .each = 16 * kKiB},
    {.together = 1 * kMiB, .each = 64 * kKiB},
    {.together = 4 * kMiB, .each = 256 * kKiB},
    {.together = 16 * kMiB, .each = 1 * kMiB},
};

constexpr std::uint64_t kLongestSearchNs = 10'000'000'000;
constexpr int kWarmUpSteps = 5;
constexpr int kMostOthers = 8;          // steps with other names, before these are compared instead
constexpr std::size_t kLeastSteps = 5;  // of a sample
constexpr std::size_t kMostSteps = 20;
constexpr double kLeastSampleNs = 20e6;
constexpr std::size_t kRounds = 3;  // over all candidates
// A candidate is given up if all of its samples, two or more, took so many times the best one's
// time.
constexpr double kHopeless = 1.25;
constexpr std::size_t kPairs = 9;  // of the best candidate and the usual limits
constexpr std::size_t kLeastPairs = 5;
constexpr double kLeastGain = 0.97;  // time, as a part of that with the usual limits
constexpr double kMostLost = 0.25;   // of the pairs

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::uint8_t candidate_count() {
  return static_cast<std::uint8_t>(std::size(kCandidates) + 1);
}

FusionLimits limits_of(std::uint8_t candidate, const FusionLimits& usual) {
  return candidate == 0 ? usual : kCandidates[candidate - 1];
}

void Tuner::completed(std::uint64_t name, std::size_t bytes, std::uint64_t now_ns) {
  if (over()) return;
  if (names_.contains(name)) end_step(now_ns);
  if (names_.empty()) step_began_ns_ = now_ns;
  names_.insert(name);
  sum_of_names_ += name;
  bytes_ += bytes;
}

void Tuner::skip_step() {
  left_out_ = true;
}

void Tuner::end_in_time(std::uint64_t now_ns) {
  if (!over() && began_ns_ != 0 && now_ns - began_ns_ > kLongestSearchNs) end_comparison();
}

// Ends the running step and begins the next one.
void Tuner::end_step(std::uint64_t now_ns) {
  const std::uint64_t names = std::exchange(sum_of_names_, 0);
  const std::size_t bytes = std::exchange(bytes_, 0);
  const bool left_out = std::exchange(left_out_, false);
  names_.clear();
  if (names != usual_names_ || bytes != usual_bytes_) {
    if (usual_bytes_ != 0 && ++others_ <= kMostOthers) return;
    usual_names_ = names;
    usual_bytes_ = bytes;
    others_ = 0;
    stage_ = Stage::warm_up;
    steps_.clear();
    use(0);
    return;
  }
  others_ = 0;
  if (left_out) return;
  if (began_ns_ == 0) began_ns_ = now_ns;
  end_in_time(now_ns);
  if (over()) return;
  add_step(static_cast<double>(now_ns - step_began_ns_));
}

void Tuner::add_step(double ns) {
  steps_.push_back(ns);
  if (stage_ == Stage::warm_up) {
    if (steps_.size() < kWarmUpSteps) return;
    steps_.clear();
    stage_ = Stage::explore;
    candidates_.resize(candidate_count());
    std::iota(candidates_.begin(), candidates_.end(), std::uint8_t{0});
    times_.assign(candidates_.size(), {});
    turn_ = 0;
    return;
  }
  const double sum = std::accumulate(steps_.begin(), steps_.end(), 0.0);
  if (steps_.size() < kMostSteps && (steps_.size() < kLeastSteps || sum < kLeastSampleNs)) return;
  end_sample(median(std::exchange(steps_, {})));
}

void Tuner::end_sample(double ns) {
  on_sample_(choice_, static_cast<double>(usual_bytes_) * 1000 / ns);
  if (stage_ == Stage::explore) {
    times_[choice_].push_back(ns);
    if (++turn_ == candidates_.size()) return end_round();
    return use(candidates_[turn_]);
  }
  if (choice_ == 0) {
    usual_ns_ = ns;
    return use(best_);
  }
  best_times_.push_back(ns);
  ratios_.push_back(ns / *usual_ns_);
  if (ratios_.size() == kPairs) return end_comparison();
  use(0);
}

// Ends a round over the candidates. Gives up those that are hopeless.
void Tuner::end_round() {
  const auto time_of = [&](std::uint8_t candidate) { return median(times_[candidate]); };
  best_ = *std::min_element(candidates_.begin(), candidates_.end(),
                            [&](auto a, auto b) { return time_of(a) < time_of(b); });
  if (times_[best_].size() == kRounds) {
    if (best_ == 0) return finish(0, time_of(0));
    stage_ = Stage::compare;
    best_times_.clear();
    ratios_.clear();
    return use(0);
  }
  const double most = time_of(best_) * kHopeless;
  std::erase_if(candidates_, [&](auto candidate) {
    const std::vector<double>& times = times_[candidate];
    return candidate > 0 && times.size() > 1 &&
           *std::min_element(times.begin(), times.end()) > most;
  });
  turn_ = 0;
  if (candidates_.size() == 1) return finish(0, time_of(0));
  use(candidates_[0]);
}

// Decides between the best candidate and the usual limits, by the pairs measured so far.
void Tuner::end_comparison() {
  const auto lost =
      std::count_if(ratios_.begin(), ratios_.end(), [](double ratio) { return ratio >= 1; });
  const bool won = stage_ == Stage::compare && ratios_.size() >= kLeastPairs &&
                   median(ratios_) <= kLeastGain &&
                   static_cast<double>(lost) <= kMostLost * static_cast<double>(ratios_.size());
  if (won) return finish(best_, median(best_times_));
  if (!times_.empty() && !times_[0].empty()) return finish(0, median(times_[0]));
  use(0);
  stage_ = Stage::over;
}

void Tuner::finish(std::uint8_t candidate, double ns) {
  use(candidate);
  stage_ = Stage::over;
  on_sample_(candidate, static_cast<double>(usual_bytes_) * 1000 / ns);
}

// The running step is left out, because it began with other limits.
void Tuner::use(std::uint8_t candidate) {
  choice_ = candidate;
  left_out_ = true;
}

Result<AutotuneLog> AutotuneLog::open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return fail_errno("cannot write the log of --autotune, " + path, errno);
  std::fputs(
      "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
      "tensor_fusion_threshold,score,largest_fused_bytes\n",
      file);
  std::fflush(file);
  return AutotuneLog(file);
}

void AutotuneLog::write(const FusionLimits& limits, double score) {
  std::fprintf(file_.get(), "0,0,0,1,0,%g,%g,%zu\n", static_cast<double>(limits.together) / kMiB,
               score, limits.each);
  std::fflush(file_.get());
}

}  // namespace libhvd
