// Measures a call of hvd_progress with all its fields. Run it with hvdrun, whose agent reads the
// progress.
//
//   hvdrun -np 1 progress_cost [thousands of calls, 2000]
//
// Prints the nanoseconds of processor time for each call. progress_cost.py does the same in Python.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <hvd/hvd.hpp>

namespace {

// Returns the processor time of this thread, without other programs on the same processor.
double processor_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = 1000 * std::int64_t{argc > 1 ? std::atoi(argv[1]) : 2000};
  hvd::init();
  const double begin = processor_ns();
  for (std::int64_t i = 0; i < count; ++i)
    hvd::progress({.step = i, .steps = count, .samples = 64, .epoch = 0, .epochs = 1, .loss = 0.5});
  std::printf("%.0f ns a call\n", (processor_ns() - begin) / static_cast<double>(count));
  hvd::shutdown();
}
