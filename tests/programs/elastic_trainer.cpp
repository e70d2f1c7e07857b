// elastic_trainer [--epochs N] [--samples N] [--batch N] [--pause US] [--rounds N]
//   [--background] [--c] [--swallow] [--die DEATH,…] [--hold STEP:MEMBER:FILE,…] [--ready FILE]
//   [--follow MEMBER] [--never-init] [--second] [--take-in STEP]
//
// Trains a linear model with hvd::elastic::run, or with the C calls of hvd/elastic.h (--c). The
// sums over ranks are made by blocking calls, or in the background (--background). They also have
// how often each sample was used. So the state has it too, whatever was lost. Prints "member M pid
// P" at the start. Prints "member M pid P generation G rank R size N step S loss L used MIN MAX"
// after the training, where MIN and MAX are those of all samples.
//
// DEATH is POINT:MEMBER:GENERATION:HOW[:STEP]. The member does HOW when it comes to POINT in this
// generation, or in any with GENERATION 0. Points: before-init, after-init, step (before STEP, from
// 0 on; the last one without it), reduced (after this step's allreduce), commit (in the copy of
// this step's commit), restore, sync, reset (in a reset callback), finished (after the training),
// left (between hvd_shutdown and exit; GENERATION is 0). HOW: kill, stop, exit7, exit0 (without
// hvd_shutdown), leave (hvd_shutdown, then exit 0), quick0 (_exit), throw, fork (a child calls
// hvd), spawn (a second process calls hvd_init). The rank continues after the last two, and after
// SIGCONT.
//
// --hold: the member, or each with -1, waits before this step until FILE exists. --ready: a member
// that waits appends "M PID" to FILE. --follow: the member is called "hvd-rank", as fault_injector
// wants it, from its first error until it has done the next step. --pause: each step takes so much
// longer. --swallow: after the first error, calls hvd_allreduce for ever. --rounds: trains so many
// times, each between hvd_init and hvd_shutdown. --never-init: sleeps instead of a training.
// --second: only calls hvd_init, and prints its error. --take-in: asks after each commit whether
// new ranks are ready (hvd_check_updates). A member of the start waits once before STEP until it
// knows of some. A process that is started later prints "newcomer M rank R local L device D value
// V" in its first session, where V is what a broadcast gave it instead of its own number.
#include "options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/async.hpp>
#include <hvd/collectives.hpp>
#include <hvd/data.hpp>
#include <hvd/elastic.hpp>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWeights = 4;

struct Death {
  std::string point;
  int member = 0;
  int generation = 0;
  std::string how;
  std::int64_t step = -1;  // the last one
};

char** words = nullptr;
std::vector<Death> deaths;
std::string how_in_trap;    // what happens when the page is touched
char* trap_page = nullptr;  // a block of the state

struct Training {
  std::int64_t samples = number(words, "--samples", 50);
  std::int64_t batch = number(words, "--batch", 12);
  std::int64_t epochs = number(words, "--epochs", 4);
  std::int64_t steps_of_epoch = (samples + batch - 1) / batch;
  std::int64_t steps = steps_of_epoch * epochs;
  std::int64_t now = 0;  // the step in progress
  // The state.
  std::vector<double> weights = std::vector<double>(kWeights);
  std::vector<double> used = std::vector<double>(static_cast<std::size_t>(samples));
  std::int64_t step = 0;
};

int own_member() {
  const char* const member = std::getenv("HVD_MEMBER");
  return member != nullptr ? std::atoi(member) : own_rank();
}

bool was_started_later() {
  return std::getenv("HVD_NEWCOMER") != nullptr;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

void wait_for_child(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
}

// A child of fork(2) has no session.
void call_in_child() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child > 0) return wait_for_child(child);
  float value = 1;
  const hvd_status status = hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr);
  std::printf("child: %d %s\n", status, hvd_last_error());
  std::fflush(nullptr);
  _exit(0);
}

void call_in_second_process() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child > 0) return wait_for_child(child);
  std::string second = "--second";
  std::array<char*, 3> arguments{words[0], second.data(), nullptr};
  execv(words[0], arguments.data());
  _exit(127);
}

void act(const std::string& how) {
  if (how == "kill") raise(SIGKILL);
  if (how == "stop") raise(SIGSTOP);
  if (how == "exit7") std::exit(7);
  if (how == "exit0") std::exit(0);
  if (how == "quick0") _exit(0);
  if (how == "throw") throw std::runtime_error("a bad sample");
  if (how == "fork") call_in_child();
  if (how == "spawn") call_in_second_process();
  if (how == "leave") {
    hvd::shutdown();
    std::exit(0);
  }
}

// Returns what this process shall do here; "" for nothing. `step`: nullptr outside of a step.
std::string due(const std::string& point, const Training* in_step) {
  const int generation = hvd_generation();
  for (auto& death : deaths) {
    if (death.point != point || death.member != own_member() ||
        (death.generation != 0 && death.generation != generation))
      continue;
    if (in_step != nullptr && in_step->now != (death.step == -1 ? in_step->steps - 1 : death.step))
      continue;
    death.point = "done";
    return death.how;
  }
  return "";
}

void come_to(const std::string& point, const Training* in_step = nullptr) {
  if (const std::string how = due(point, in_step); !how.empty()) act(how);
}

// The next access to the state's page, by a copy inside libhvd, is the point.
void come_to_inside(const std::string& point, const Training* in_step = nullptr) {
  how_in_trap = due(point, in_step);
  if (!how_in_trap.empty()) mprotect(trap_page, kPage, PROT_NONE);
}

void on_trap(int number, siginfo_t* about, void*) {
  const auto* const address = static_cast<const char*>(about->si_addr);
  if (address < trap_page || address >= trap_page + kPage) {
    std::signal(number, SIG_DFL);
    return;
  }
  mprotect(trap_page, kPage, PROT_READ | PROT_WRITE);
  act(how_in_trap);
}

void set_trap() {
  trap_page = static_cast<char*>(
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  struct sigaction action = {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

// The features of a sample; the last number is the target.
std::array<double, kWeights + 1> sample(std::int64_t index) {
  std::array<double, kWeights + 1> values{};
  for (std::size_t i = 0; i < kWeights; ++i) {
    values[i] = std::sin(static_cast<double>(index * 7 + static_cast<std::int64_t>(i) * 3 + 1));
    values[kWeights] += values[i] * static_cast<double>(i + 1);
  }
  values[kWeights] += 0.1 * std::cos(static_cast<double>(index));
  return values;
}

double error_of(const std::vector<double>& weights, std::int64_t index) {
  const auto values = sample(index);
  double error = -values[kWeights];
  for (std::size_t i = 0; i < kWeights; ++i) error += weights[i] * values[i];
  return error;
}

void call_this_thread(const char* name) {
  if (number(words, "--follow", -1) == own_member()) prctl(PR_SET_NAME, name);
}

void hold(const Training& training) {
  static const auto holds = split(option(words, "--hold", ""), ',');
  for (const auto& text : holds) {
    const auto parts = split(text, ':');
    if (std::stoll(parts.at(0)) != training.step) continue;
    if (const int member = std::stoi(parts.at(1)); member != -1 && member != own_member()) continue;
    if (const char* const ready = option(words, "--ready", nullptr))
      append_line(ready, std::to_string(own_member()).c_str(), getpid());
    while (access(parts.at(2).c_str(), F_OK) != 0) usleep(500);
  }
}

// Waits once until this member knows of new ranks, if some have not been replaced.
void wait_for_new_ranks(const Training& training) {
  static bool done = was_started_later();
  if (done || number(words, "--take-in", -1) != training.step) return;
  done = true;
  const int at_start = std::atoi(std::getenv("HVD_SIZE"));
  while (hvd_size() < at_start && hvd_known_updates() == 0) usleep(500);
}

void add_over_ranks(std::vector<double>& gradient, std::size_t weights) {
  if (flag(words, "--background") == 0)
    return hvd::allreduce(std::span(gradient), hvd::Op::sum, "gradient");
  const auto all = std::span(gradient);
  auto first = hvd::allreduce_async(all.first(weights), hvd::Op::sum, "gradient");
  auto second = hvd::allreduce_async(all.subspan(weights), hvd::Op::sum, "used");
  first.wait();
  second.wait();
}

// Does one step with this rank's samples of the batch.
void train_step(Training& training) {
  training.now = training.step;
  hold(training);
  wait_for_new_ranks(training);
  come_to("step", &training);
  usleep(static_cast<useconds_t>(number(words, "--pause", 0)));
  hvd::Shard shard({.samples = training.samples,
                    .batch = training.batch,
                    .epoch = training.step / training.steps_of_epoch,
                    .seed = 1});
  const std::int64_t step = training.step % training.steps_of_epoch;
  std::vector<double> sums(kWeights + training.used.size());
  for (const std::int64_t index : shard.step(step)) {
    const auto values = sample(index);
    const double error = error_of(training.weights, index);
    for (std::size_t i = 0; i < kWeights; ++i) sums[i] += 2 * error * values[i];
    sums[kWeights + static_cast<std::size_t>(index)] += 1;
  }
  add_over_ranks(sums, kWeights);
  come_to("reduced", &training);
  const double rate = 0.1 / static_cast<double>(shard.batch_size(step));
  for (std::size_t i = 0; i < kWeights; ++i) training.weights[i] -= rate * sums[i];
  for (std::size_t i = 0; i < training.used.size(); ++i) training.used[i] += sums[kWeights + i];
  ++training.step;
  come_to_inside("commit", &training);
}

template <class Commit>
void train(Training& training, const Commit& commit) {
  try {
    while (training.step < training.steps) {
      train_step(training);
      call_this_thread("trainer");
      commit();
    }
  } catch (const hvd::Error&) {
    float value = 1;
    while (flag(words, "--swallow") != 0)
      if (hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr) != HVD_OK) usleep(1000);
    call_this_thread("hvd-rank");
    come_to_inside("restore");
    throw;
  }
}

void run_with_cpp(Training& training) {
  hvd::elastic::State state;
  state.add("weights", training.weights).add("page", std::span(trap_page, kPage));
  state.add("used", training.used).add("step", training.step);
  state.on_reset([] {
    come_to("reset");
    come_to_inside("sync");
  });
  come_to_inside("sync");
  const bool takes_in = number(words, "--take-in", -1) >= 0;
  hvd::elastic::run(state, [&] {
    train(training, [&] {
      state.commit();
      if (takes_in) hvd::elastic::check_updates();
    });
  });
}

// What hvd::elastic::run does, by C calls.
void run_with_c(Training& training) {
  const auto must = [](hvd_status status) { hvd::detail::check(status); };
  hvd_state* state = nullptr;
  must(hvd_state_create(&state));
  const auto add = [&](const char* name, void* data, std::size_t bytes) {
    must(hvd_state_add(state, name, data, bytes, HVD_HOST));
  };
  add("weights", training.weights.data(), kWeights * sizeof(double));
  add("page", trap_page, kPage);
  add("used", training.used.data(), training.used.size() * sizeof(double));
  add("step", &training.step, sizeof training.step);
  come_to_inside("sync");
  const bool takes_in = number(words, "--take-in", -1) >= 0;
  bool lost = hvd_newcomer() == 1;
  for (bool trained = false; !trained;) {
    try {
      if (lost) {
        must(hvd_reform());
        come_to("reset");
        come_to_inside("sync");
      }
      must(hvd_state_sync(state));
      train(training, [&] {
        must(hvd_state_commit(state));
        std::uint32_t updates = 0;
        if (takes_in) must(hvd_check_updates(&updates));
        if (updates != 0) throw hvd::elastic::Updated(updates);
      });
      trained = true;
    } catch (const hvd::elastic::Updated&) {
      lost = true;
    } catch (const hvd::Error& error) {
      if (error.status() != HVD_ERROR_PEER) throw;
      must(hvd_state_restore(state));
      lost = true;
    }
  }
  hvd_state_free(state);
}

void print_result(const Training& training) {
  double loss = 0;
  for (std::int64_t index = 0; index < training.samples; ++index)
    loss += std::pow(error_of(training.weights, index), 2) / static_cast<double>(training.samples);
  const auto [least, most] = std::minmax_element(training.used.begin(), training.used.end());
  std::printf("member %d pid %d generation %d rank %d size %d step %lld loss %.12g used %g %g\n",
              hvd_member(), getpid(), hvd_generation(), hvd_rank(), hvd_size(),
              static_cast<long long>(training.step), loss, *least, *most);
  std::fflush(stdout);
}

void train_round() {
  come_to("before-init");
  hvd::init();
  if (was_started_later()) {
    std::int32_t value = own_member();
    hvd::broadcast(std::span(&value, 1), 0);
    std::printf("newcomer %d rank %d local %d device %d value %d\n", own_member(), hvd_rank(),
                hvd_local_rank(), hvd_local_device(), value);
    std::fflush(stdout);
  }
  come_to("after-init");
  Training training;
  if (flag(words, "--c") != 0)
    run_with_c(training);
  else
    run_with_cpp(training);
  print_result(training);
  come_to("finished");
  hvd::shutdown();
  come_to("left");
}

}  // namespace

int main(int, char** argv) {
  words = argv;
  if (flag(words, "--second") != 0) {
    const hvd_status status = hvd_init();
    std::printf("second process: %d %s\n", status, hvd_last_error());
    return 0;
  }
  for (const auto& text : split(option(words, "--die", ""), ',')) {
    const auto parts = split(text, ':');
    deaths.push_back({parts.at(0), std::stoi(parts.at(1)), std::stoi(parts.at(2)), parts.at(3),
                      parts.size() > 4 ? std::stoll(parts[4]) : -1});
  }
  set_trap();
  std::printf("member %d pid %d\n", own_member(), getpid());
  std::fflush(stdout);
  if (flag(words, "--never-init") != 0) {
    come_to("step");
    sleep(1000);
  }
  for (long round = number(words, "--rounds", 1); round > 0; --round) train_round();
  return 0;
}
