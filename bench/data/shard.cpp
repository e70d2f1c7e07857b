// Measures the time and memory in which a rank computes the order of one epoch.
//
//   shard [samples, 10000000] [size, 4] [batch, 1024]
//
// Makes the shard and iterates over all steps of rank 0. Prints "seconds X" and "megabytes Y": the
// growth of the process's peak memory.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <hvd/data.hpp>
#include <sys/resource.h>

namespace {

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

std::int64_t argument(int argc, char** argv, int index, std::int64_t otherwise) {
  return index < argc ? std::atoll(argv[index]) : otherwise;
}

void run(const hvd::ShardOptions& options) {
  const double before = peak_megabytes();
  const auto begin = std::chrono::steady_clock::now();
  hvd::Shard shard(options);
  std::uint64_t sum = 0;  // prevents that the compiler removes the loop
  for (std::int64_t step = 0; step < shard.steps(); ++step) {
    for (const std::int64_t sample : shard.step(step)) sum += static_cast<std::uint64_t>(sample);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("seconds %.4f\nmegabytes %.1f\n", seconds.count(), peak_megabytes() - before);
  std::fprintf(stderr, "sum of the indices: %llu\n", static_cast<unsigned long long>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({.samples = argument(argc, argv, 1, 10'000'000),
         .batch = argument(argc, argv, 3, 1024),
         .seed = 1,
         .size = static_cast<int>(argument(argc, argv, 2, 4))});
  } catch (const hvd::Error& error) {
    std::fprintf(stderr, "shard: %s\n", error.what());
    return 1;
  }
}
