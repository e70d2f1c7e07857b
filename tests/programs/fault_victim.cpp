// fault_victim FOLDER [--read]: a rank that uses the parts of libhvd that make system calls: shared
// buffers, collectives, a timeline, a log and checkpoints in FOLDER. Prints "complete" at its end.
// Exit code 2: a call has failed; its error is on stderr. Code 4: a sum is wrong. --read: only
// loads the checkpoint and prints "loaded STEP" or "nothing". Code 3: the checkpoint is damaged.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include <hvd/checkpoint.hpp>
#include <hvd/hvd.hpp>
#include <hvd/io.hpp>
#include <sys/prctl.h>

namespace {

constexpr std::size_t kElements = 50000;

float expected(std::uint64_t step, std::size_t i) {
  return static_cast<float>((step * 7 + i) % 1000);
}

int run(const std::string& folder, bool only_read) {
  hvd::init();
  std::vector<float> weights(kElements);
  std::uint64_t step = 0;
  hvd::State state;
  state.add("weights", weights);
  hvd::Checkpoints checkpoints(folder + "/checkpoints");
  if (const auto loaded = checkpoints.load(state)) {
    step = loaded->step;
    for (std::size_t i = 0; i < kElements; ++i)
      if (weights[i] != expected(step, i)) return 3;
    if (only_read) hvd::root_out() << "loaded " << step << std::endl;
  } else if (only_read) {
    hvd::root_out() << "nothing" << std::endl;
  }
  if (only_read) return hvd::shutdown(), 0;
  hvd::Log log(folder + "/log");
  std::string fault_of_log;
  hvd::Buffer<float> shared(kElements);
  for (int round = 0; round < 3; ++round) {
    for (float& value : shared) value = 1;
    hvd::allreduce(shared.span(), hvd::Op::sum);
    std::vector<float> values(kElements, 1);
    hvd::allreduce_async(std::span(values), hvd::Op::sum, "values").wait();
    for (std::size_t i = 0; i < kElements; ++i)
      if (values[i] != static_cast<float>(hvd::size()) || shared[i] != values[i]) return 4;
    ++step;
    for (std::size_t i = 0; i < kElements; ++i) weights[i] = expected(step, i);
    checkpoints.save(state, step, 1.0);
    log << "step " << step << std::endl;
    if (!log && fault_of_log.empty()) fault_of_log = hvd_last_error();
  }
  if (!log) {
    std::cerr << "fault_victim: the log is incomplete: " << fault_of_log << std::endl;
    return 2;
  }
  checkpoints.wait();
  checkpoints.close();
  hvd::shutdown();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_NAME, "hvd-rank");
  try {
    const int code = run(count > 1 ? words[1] : ".", count > 2);
    if (code != 0 || count > 2) return code;
    if (std::puts("complete") >= 0 && std::fflush(stdout) == 0) return 0;
    std::cerr << "fault_victim: stdout: " << std::strerror(errno) << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "fault_victim: " << error.what() << std::endl;
    return 2;
  }
}
