#include "agent/rank_processes.hpp"

#include "agent/process_tree.hpp"
#include "agent/pseudo_terminal.hpp"
#include "base/system.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

// Each process that is started gets a copy of our table of descriptors, and closes it at exec. So
// no more ranks than these have both ends of their pipes open here at a time. With all at once, 128
// ranks took 7 ms of the processor for it.
constexpr std::size_t kStartedAtOnce = 32;

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Result<Fd> duplicate(int fd) {
  Fd other(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!other) return fail_errno("cannot duplicate a descriptor", errno);
  return other;
}

Result<RankStreams> make_terminal_streams(const TerminalSettings& settings) {
  RankStreams streams;
  HVD_TRY(PseudoTerminal terminal, open_pseudo_terminal(settings));
  HVD_TRY(streams.ours.input, duplicate(terminal.ours.get()));
  HVD_TRY(streams.ours.output, duplicate(terminal.ours.get()));
  streams.ours.terminal = std::move(terminal.ours);
  HVD_TRY(streams.child_output, duplicate(terminal.ranks.get()));
  HVD_TRY(streams.child_error, duplicate(terminal.ranks.get()));
  streams.child_input = std::move(terminal.ranks);
  return streams;
}

Result<RankStreams> make_streams(const LaunchRank& rank, PipeWrites* order) {
  if (rank.terminal) return make_terminal_streams(*rank.terminal);
  RankStreams streams;
  HVD_TRY(Pipe output, make_pipe());
  HVD_TRY(Pipe error, make_pipe());
  if (rank.wants_input) {
    HVD_TRY(Pipe input, make_pipe());
    streams.child_input = std::move(input.read);
    streams.ours.input = std::move(input.write);
    HVD_CHECK(set_nonblocking(streams.ours.input.get()));
  }
  if (rank.inherits_input) {
    HVD_TRY(streams.child_input, duplicate(STDIN_FILENO));
  }
  HVD_CHECK(set_nonblocking(output.read.get()));
  HVD_CHECK(set_nonblocking(error.read.get()));
  streams.child_output = std::move(output.write);
  streams.child_error = std::move(error.write);
  streams.ours.output = std::move(output.read);
  streams.ours.error = std::move(error.read);
  if (order != nullptr)
    streams.ours.order =
        std::make_shared<StreamOrder>(*order, streams.ours.output.get(), streams.ours.error.get());
  return streams;
}

// Returns whether a child has died. It is not reaped.
bool has_died(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

SpawnRequest RankProcesses::request_for(const LaunchMessage& job, Start& start,
                                        const RankStreams& streams, int null) const {
  SpawnRequest request;
  request.program = job.program;
  request.arguments = job.arguments;
  request.environment = std::move(start.environment);
  request.input = streams.child_input ? streams.child_input.get() : null;
  request.output = streams.child_output.get();
  request.error = streams.child_error.get();
  request.has_terminal = start.rank->terminal.has_value();
  request.inherited = start.inherited;
  request.cpus = start.rank->cpus;
  request.numa_nodes = start.rank->numa_nodes;
  request.limits = job.limits;
  if (job.limits.empty()) request.limits.push_back({RLIMIT_NOFILE, descriptor_limit_});
  request.limits.push_back({RLIMIT_SIGPENDING, writes_.limit_before()});
  return request;
}

RankProcesses::RankProcesses(rlimit descriptor_limit, PipeWrites& writes)
    : descriptor_limit_(descriptor_limit), writes_(writes) {}

Result<void> RankProcesses::start(const LaunchMessage& job, std::vector<Start> starts,
                                  std::size_t first_index, std::vector<RankPipes>& pipes) {
  take_over(job.umask, job.niceness);
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return fail_errno("cannot open /dev/null", errno);
  const std::span<Start> all(starts);
  for (std::size_t first = 0; first < all.size(); first += kStartedAtOnce) {
    const auto count = std::min(kStartedAtOnce, all.size() - first);
    HVD_CHECK(start_group(job, all.subspan(first, count), first_index + first, null.get(), pipes));
  }
  return {};
}

Result<void> RankProcesses::start_group(const LaunchMessage& job, std::span<Start> group,
                                        std::size_t first, int null,
                                        std::vector<RankPipes>& pipes) {
  std::vector<RankStreams> streams;
  std::vector<SpawnRequest> requests;
  auto* const order = job.order_streams ? &writes_ : nullptr;
  for (auto& start : group) {
    HVD_TRY(auto made, make_streams(*start.rank, order));
    streams.push_back(std::move(made));
    requests.push_back(request_for(job, start, streams.back(), null));
  }
  const auto now = std::chrono::steady_clock::now();
  const auto results = pool_.spawn_all(requests);
  Result<void> outcome;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) {
      if (outcome) outcome = results[i].error();
      continue;
    }
    RankProcess process;
    process.rank = group[i].rank->rank;
    process.index = first + i;
    process.pid = *results[i];
    process.started = now;
    process.alive = true;
    ranks_.push_back(process);
    pipes.push_back(std::move(streams[i].ours));
    ++alive_;
  }
  return outcome;
}

std::vector<RankProcesses::Exit> RankProcesses::reap() {
  std::vector<Exit> exits;
  rusage usage{};
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::wait4(-1, &status, WNOHANG, &usage)) > 0) {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(), [pid](const RankProcess& rank) {
      return rank.alive && rank.pid == pid;
    });
    if (at == ranks_.end()) continue;  // an orphan that a rank left to us
    at->alive = false;
    at->wait_status = status;
    if (!stopping_ && !at->killed) at->died_before_stop = true;
    --alive_;
    exits.push_back({static_cast<std::size_t>(at - ranks_.begin()), to_seconds(usage.ru_utime),
                     to_seconds(usage.ru_stime),
                     static_cast<std::uint64_t>(usage.ru_maxrss) * 1024});
  }
  return exits;
}

void RankProcesses::signal_all(std::initializer_list<int> signals) const {
  const auto send = [&](pid_t to) {
    for (const int signal : signals) ::kill(to, signal);
  };
  for (const auto& rank : ranks_)
    if (rank.alive) send(-rank.pid);
  for (const auto& process : descendants_of(::getpid(), all_processes())) {
    const bool reached = std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
      return rank.alive && rank.pid == process.group;
    });
    if (!reached) send(process.pid);
  }
}

void RankProcesses::kill(int rank) {
  const auto at = std::find_if(ranks_.begin(), ranks_.end(), [rank](const RankProcess& process) {
    return process.rank == rank && process.alive;
  });
  if (at == ranks_.end()) return;
  at->killed = !has_died(at->pid);
  for (const auto& process : descendants_of(at->pid, all_processes())) ::kill(process.pid, SIGKILL);
  ::kill(-at->pid, SIGKILL);
}

void RankProcesses::begin_stop() {
  stopping_ = true;
  for (auto& rank : ranks_)
    if (rank.alive && !rank.killed && has_died(rank.pid)) rank.died_before_stop = true;
}

pid_t RankProcesses::pid_of(int rank) const {
  const auto at = std::find_if(ranks_.begin(), ranks_.end(), [rank](const RankProcess& process) {
    return process.rank == rank && process.alive;
  });
  return at == ranks_.end() ? 0 : at->pid;
}

bool RankProcesses::none_left() const {
  if (any_rank_alive()) return false;
  // A process below us that loses its parent becomes our child, so without children none is left.
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

}  // namespace hvdrun
