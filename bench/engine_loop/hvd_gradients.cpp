// Measures the engine with many named tensors in a step, in a different order on each rank.
//   hvd_gradients resnet50 STEPS [SECONDS]    the gradients of ResNet-50
//   hvd_gradients shared STEPS [SECONDS]      the same, in memory that the ranks share
//   hvd_gradients tiny STEPS COUNT            COUNT tensors of one float
// Does not measure the steps of the first SECONDS, during which --autotune searches.
// Rank 0 prints the median of the milliseconds of a step.
#include "gradients.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <hvd/hvd.hpp>

namespace {

std::vector<std::size_t> counts_of(const std::string& model, int argc, char** argv) {
  if (model == "tiny") return std::vector<std::size_t>(argc > 3 ? std::stoul(argv[3]) : 1000, 1);
  std::vector<std::size_t> counts(BENCH_GRADIENTS);
  bench_resnet50(counts.data());
  return counts;
}

int run(int argc, char** argv) {
  const std::vector<std::size_t> counts = counts_of(argv[1], argc, argv);
  const int steps = std::stoi(argv[2]);
  const bool shared = argv[1] == std::string("shared");
  std::vector<std::vector<float>> vectors;
  const hvd::Buffers<float> buffers(shared ? counts : std::vector<std::size_t>());
  std::vector<std::span<float>> tensors;
  std::vector<std::string> names;
  for (const std::size_t count : counts) {
    tensors.push_back(shared ? buffers[tensors.size()] : std::span(vectors.emplace_back(count)));
    names.push_back("gradient." + std::to_string(names.size()));
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 random(static_cast<unsigned>(hvd::rank()) + 1);
  std::vector<double> times;
  const double early_ms =
      argc > 3 && argv[1] != std::string("tiny") ? std::stod(argv[3]) * 1000 : 0;
  // The first step is a warm-up. All ranks begin to measure at the same step.
  double early = early_ms > 0 ? 1 : 0;
  const double first = bench_now_ms();
  for (int step = -1; step < steps; ++step) {
    if (early > 0) {
      early = bench_now_ms() - first < early_ms ? 1 : 0;
      hvd::broadcast(std::span(&early, 1), 0);
      if (early > 0) step = -2;
    }
    for (const auto tensor : tensors) std::fill(tensor.begin(), tensor.end(), 1.0f);
    std::shuffle(order.begin(), order.end(), random);
    hvd::barrier();
    const double begin = bench_now_ms();
    std::vector<hvd::Future<>> sums;
    sums.reserve(order.size());
    for (const std::size_t i : order)
      sums.push_back(hvd::allreduce_async(tensors[i], hvd::Op::sum, names[i]));
    for (hvd::Future<>& sum : sums) sum.wait();
    if (step >= 0) times.push_back(bench_now_ms() - begin);
  }
  std::sort(times.begin(), times.end());
  if (hvd::rank() == 0) std::printf("%.3f\n", times[times.size() / 2]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hvd::init();
    const int code = run(argc, argv);
    hvd::shutdown();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hvd_gradients: %s\n", error.what());
    return 1;
  }
}
