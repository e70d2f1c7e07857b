// autotune_user LOG [set]: a training program for tests of --autotune.
// Each step sums 24 named tensors. All ranks end after the same step, once rank 0 finds more than
// eight lines in the log. With `set`, the first and the last rank also sum in a process set. All
// ranks then continue after the end of the search, with the set removed and made again, and rank 0
// prints how many lines the log had at the end of the search. At its end rank 0 prints "sums are
// right".
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

constexpr std::size_t kTensors = 24;
constexpr int kStepsBetweenChecks = 50;
// Checks in a row without a new line in the log, after which the search has ended: 4 × 50 steps. A
// sample takes at most 20.
constexpr int kChecksWithoutLine = 4;

// Sums the tensors of a step over the ranks of a set.
void train(int step, const hvd::ProcessSet& set) {
  std::vector<std::vector<float>> tensors;
  std::vector<hvd::Future<>> sums;
  for (std::size_t i = 0; i < kTensors; ++i)
    tensors.emplace_back(std::size_t{1} << i % 16, static_cast<float>(step % 7));
  for (std::size_t i = 0; i < kTensors; ++i) {
    hvd::Options options("gradient." + std::to_string(i));
    options.on = set;
    sums.push_back(hvd::allreduce_async(std::span(tensors[i]), hvd::Op::sum, options));
  }
  for (auto& sum : sums) sum.wait();
  const auto wanted = static_cast<float>(step % 7 * set.size());
  for (const auto& tensor : tensors)
    if (std::any_of(tensor.begin(), tensor.end(), [&](float value) { return value != wanted; }))
      throw std::runtime_error("wrong sum");
}

int lines_of(const char* path) {
  std::ifstream log(path);
  int lines = 0;
  for (std::string line; std::getline(log, line);) ++lines;
  return lines;
}

// Returns rank 0's value.
int of_rank_0(int value) {
  std::vector<int> values{value};
  hvd::broadcast(std::span(values), 0);
  return values[0];
}

void train_until_lines(const char* log) {
  for (int step = 0;; ++step) {
    train(step, hvd::ProcessSet::from_id(0));
    if (step % kStepsBetweenChecks == kStepsBetweenChecks - 1 && of_rank_0(lines_of(log)) > 8)
      return;
  }
}

void train_with_set(const char* log) {
  const std::vector<int> ranks{0, hvd::size() - 1};
  hvd::ProcessSet set(ranks);
  int step = 0;
  const auto train_in_both = [&] {
    for (int i = 0; i < kStepsBetweenChecks; ++i, ++step) {
      train(step, hvd::ProcessSet::from_id(0));
      if (set.included()) train(step, set);
    }
  };
  int lines = 0;
  for (int checks = 0; checks < kChecksWithoutLine || lines < 2;) {
    train_in_both();
    const int found = of_rank_0(lines_of(log));
    checks = found == lines ? checks + 1 : 0;
    lines = found;
  }
  set.remove();
  set = hvd::ProcessSet(ranks);
  train_in_both();
  if (hvd::rank() == 0) std::printf("lines: %d\n", lines);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hvd::init();
    if (argc > 2 && argv[2] == std::string_view("set"))
      train_with_set(argv[1]);
    else
      train_until_lines(argv[1]);
    if (hvd::rank() == 0) std::puts("sums are right");
    hvd::shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "autotune_user: %s\n", error.what());
    return 1;
  }
}
