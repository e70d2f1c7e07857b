// Measures the time to record one event of each kind for the timeline.
//
//   trace_events [thousands of events, 500]
//
// Prints "KIND NS" lines: nanoseconds for each event. "off" is a collective while the recorder is
// off.
#include "trace/call_trace.hpp"
#include "trace/recorder.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

using libhvd::CallFacts;
using libhvd::CallTrace;
using libhvd::Recorder;

constexpr std::size_t kRoom = std::size_t{512} << 20;

// Returns the processor time of this thread, without other programs on the same processor.
double processor_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Body>
void measure(const char* kind, int count, Body body) {
  const double begin = processor_ns();
  for (int i = 0; i < count; ++i) body(static_cast<std::size_t>(i));
  std::printf("%s %.1f\n", kind, (processor_ns() - begin) / count);
}

void run(int count) {
  std::vector<std::string> names;  // names like those of a model's tensors
  for (int i = 0; i < 161; ++i) names.push_back("layer" + std::to_string(i) + ".conv.weight.grad");
  const CallFacts facts{.bytes = 4096, .type = HVD_FLOAT32, .op = HVD_SUM};
  Recorder recorder;
  CallTrace calls(recorder);
  const auto call = [&](std::size_t i) {
    calls.end(calls.begin(), "allreduce", names[i % names.size()].c_str(), facts, true);
  };
  measure("off", count, call);
  recorder.start(kRoom);
  measure("collective", count, call);
  measure("span", count, [&](std::size_t i) {
    recorder.begin_span(names[i % names.size()]);
    recorder.end_span();
  });
  measure("mark", count, [&](std::size_t i) { recorder.mark(libhvd::EventKind::step, i); });
  recorder.stop();
  if (recorder.take().dropped > 0) std::fprintf(stderr, "trace_events: some were dropped\n");
}

}  // namespace

int main(int argc, char** argv) {
  run(1000 * (argc > 1 ? std::atoi(argv[1]) : 500));
}
