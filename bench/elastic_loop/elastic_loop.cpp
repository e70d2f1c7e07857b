// Measures how long ranks are held up when one of them is killed, and an allreduce after that.
//   elastic_loop kill FILE STEP_MS             the last rank is killed in step 20
//   elastic_loop kill FILE STEP_MS SECOND_MS   the one before dies SECOND_MS after its error
//   elastic_loop wait FILE STEP_MS             the last rank waits in step 20 for its host's loss
//   elastic_loop spare FILE STEP_MS            the last rank is killed, and a spare takes its place
//   elastic_loop join FILE STEP_MS             the same, and a new process joins the others later
//   elastic_loop allreduce FLOATS CALLS        of memory that the ranks share
//   elastic_loop commit BYTES CALLS            of a state of this size
// kill: each rank that is left prints the ms from the first kill until it has done its next step,
// less the time that it slept in its steps; then the times of the parts. The ranks share FILE,
// which begins with the ms of the kill, or of the wait's begin. spare: the same, of each rank of
// the start. join: the ms from the check that found the new process. allreduce: rank 0 prints the
// median us before hvd_reform and after it. commit: rank 0 prints the median us.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <hvd/elastic.hpp>
#include <hvd/hvd.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double time_calls(int calls, const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const double begin = now_ms();
    call();
    times.push_back((now_ms() - begin) * 1000);
  }
  return median(times);
}

// Returns the place of the time of the kill, which all ranks see.
volatile double* time_of_kill(const char* file) {
  const int descriptor = open(file, O_RDWR | O_CREAT, 0600);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(double)) != 0)
    throw std::runtime_error(std::string("cannot make ") + file);
  void* const memory =
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return static_cast<double*>(memory);
}

enum class Change { loss, host, spare, join };

class Killing {
 public:
  Killing(Change change, const char* file, double step_ms, double second_ms)
      : change_(change), killed_(time_of_kill(file)), step_ms_(step_ms), second_ms_(second_ms) {}

  void run() {
    state_.add("weights", weights_).add("step", step_);
    state_.on_reset([this] { reformed_ = now_ms(); });
    hvd::elastic::run(state_, [this] {
      synchronised_ = now_ms();
      for (int steps = 0; steps < kSteps && (!is_whole_again() || steps < 5); ++steps) train();
    });
  }

 private:
  static constexpr int kSteps = 2000;
  static constexpr int kStepOfKill = 20;

  bool is_whole_again() const {
    const bool is_replaced = change_ == Change::spare || change_ == Change::join;
    const int lost = is_replaced ? 0 : second_ms_ >= 0 ? 2 : 1;
    return hvd::elastic::generation() > 1 && hvd::size() == first_size_ - lost;
  }

  void train() {
    const bool is_first = hvd::elastic::generation() == 1;
    sleep_through_step();
    const bool is_last = hvd::elastic::member() == hvd::size() - 1;
    if (is_first && is_last && !is_newcomer_ && step_ == kStepOfKill) {
      *killed_ = now_ms();
      while (change_ == Change::host) pause();
      std::raise(SIGKILL);
    }
    std::vector<double> gradient(weights_.size(), 1.0);
    try {
      hvd::allreduce(std::span(gradient), hvd::Op::sum);
    } catch (const hvd::Error&) {
      failed_ = now_ms();
      if (is_first && second_ms_ >= 0 && hvd::elastic::member() == hvd::size() - 2) die_later();
      throw;
    }
    ++step_;
    if (is_whole_again() && !is_newcomer_) print_once();
    state_.commit();
    if (change_ != Change::join || is_whole_again()) return;
    try {
      hvd::elastic::check_updates();
    } catch (const hvd::elastic::Updated&) {
      failed_ = now_ms();
      throw;
    }
  }

  void sleep_through_step() {
    const double begin = now_ms();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(step_ms_));
    slept_.push_back({begin, now_ms()});
  }

  void die_later() const {
    std::thread([ms = second_ms_] {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
      std::raise(SIGKILL);
    }).detach();
  }

  void print_once() {
    if (printed_) return;
    printed_ = true;
    const double end = now_ms();
    const double kill = change_ == Change::join ? failed_ : *killed_;
    double slept = 0;
    for (const auto& [from, to] : slept_) slept += std::max(0.0, to - std::max(from, kill));
    std::printf("%.3f %.3f %.3f %.3f\n", end - kill - slept, failed_ - kill, reformed_ - failed_,
                synchronised_ - reformed_);
    std::fflush(stdout);
  }

  const Change change_;
  const bool is_newcomer_ = hvd::elastic::is_newcomer();
  volatile double* const killed_;
  const double step_ms_;
  const double second_ms_;
  const int first_size_ = hvd::size();
  std::vector<double> weights_ = std::vector<double>(1000);
  std::int64_t step_ = 0;
  hvd::elastic::State state_;
  std::vector<std::pair<double, double>> slept_;
  double failed_ = 0;
  double reformed_ = 0;
  double synchronised_ = 0;
  bool printed_ = false;
};

void compare_allreduce(std::size_t count, int calls) {
  const hvd::Buffer<float> buffer(count);
  const std::span<float> values(buffer.data(), count);
  const auto measure = [&] {
    std::fill(values.begin(), values.end(), 1.0f);
    return time_calls(calls, [&] { hvd::allreduce(values, hvd::Op::average); });
  };
  measure();  // a warm-up
  const double before = measure();
  hvd::elastic::reform();
  const double after = measure();
  if (hvd::rank() == 0) std::printf("%.3f %.3f\n", before, after);
}

void measure_commit(std::size_t bytes, int calls) {
  std::vector<char> block(bytes);
  hvd::elastic::State state;
  state.add("block", block);
  state.commit();  // allocates the copy
  const double time = time_calls(calls, [&] { state.commit(); });
  if (hvd::rank() == 0) std::printf("%.3f\n", time);
}

}  // namespace

int main(int argc, char** argv) {
  hvd::init();
  const std::string what = argc > 3 ? argv[1] : "";
  const std::map<std::string, Change> changes{{"kill", Change::loss},
                                              {"wait", Change::host},
                                              {"spare", Change::spare},
                                              {"join", Change::join}};
  if (const auto change = changes.find(what); change != changes.end())
    Killing(change->second, argv[2], std::stod(argv[3]), argc > 4 ? std::stod(argv[4]) : -1).run();
  else if (what == "allreduce")
    compare_allreduce(std::stoul(argv[2]), std::stoi(argv[3]));
  else if (what == "commit")
    measure_commit(std::stoul(argv[2]), std::stoi(argv[3]));
  else
    return 2;
  hvd::shutdown();
}
