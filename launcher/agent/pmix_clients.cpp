#include "agent/pmix_clients.hpp"

#include "agent/socket_owner.hpp"
#include "common/file_content.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Without the second, Open MPI 4 would not run as one process: see kOpenMpiSettings.
constexpr std::string_view kAlone = "env -u PMIX_NAMESPACE -u OMPI_MCA_schizo";

// After this long a program that the rank's first process has started is named: it may be one that
// is to run alone. The first process itself may wait for longer.
constexpr std::chrono::milliseconds kSoon{10'000};

// Returns the program as it was started, "./tools/solve"; its name if that cannot be read.
std::string program_of(const ProcessInfo& process) {
  const auto words = content_of(fmt::format("/proc/{}/cmdline", process.pid));
  const std::string program = words.c_str();  // the first word ends with a zero
  return program.empty() ? process.name : program;
}

}  // namespace

PmixClients::PmixClients(const EventLoop& loop, PmixListener& listener, Events events)
    : listener_(listener), events_(std::move(events)), timer_(loop, [this] { on_timer(); }) {}

void PmixClients::set_job(const PmixJob& job) {
  ranks_ = job.local_ranks();
  job_size_ = job.size;
  limit_ = job.stall_time;
}

void PmixClients::connected(int rank) {
  const bool is_first = states_.empty();
  if (left_without_finalize(rank)) warn_of_second_start(rank);
  states_[rank] = State::connected;
  if (!is_first || limit_.count() == 0) return;
  waited_ = std::min(limit_, kSoon);
  timer_.start(waited_);
}

bool PmixClients::left_without_finalize(int rank) const {
  const auto at = states_.find(rank);
  return at != states_.end() && at->second == State::connected;
}

// Returns the processes of a rank that have connections to the server, in the order of these. Of
// several that share one by fork(2), it is the one that the others descend from.
std::vector<ProcessInfo> PmixClients::clients_of(int rank) const {
  std::vector<ProcessInfo> clients;
  const pid_t first = events_.pid_of(rank);
  if (first == 0) return clients;
  const auto processes = all_processes();
  auto own = descendants_of(first, processes);  // parents before their children
  const auto root = std::find_if(processes.begin(), processes.end(),
                                 [first](const auto& process) { return process.pid == first; });
  if (root != processes.end()) own.insert(own.begin(), *root);
  std::map<std::uint64_t, const ProcessInfo*> holders;
  for (const auto& process : own) {
    std::error_code error;
    for (const auto inode : sockets_of(process.pid, error)) holders.emplace(inode, &process);
  }
  for (const auto& connection : listener_.open_connections())
    if (const auto owner = owner_of_other_end(connection.socket))
      if (const auto at = holders.find(owner->inode); at != holders.end())
        clients.push_back(*at->second);
  return clients;
}

bool PmixClients::has_second_program(int rank) {
  if (job_size_ == 1) return false;  // there is no other rank to wait for
  const auto clients = clients_of(rank);
  if (clients.size() < 2 || clients.front().pid == clients.back().pid) return false;
  if (std::exchange(warned_, true)) return true;
  events_.on_warning(fmt::format(
      "rank {} has started a program of MPI or PMIx, {}, beside its own; it is refused. To run it "
      "as one process: `{} {} …`",
      rank, to_string(clients.back()), kAlone, program_of(clients.back())));
  return true;
}

// libpmix has taken the end of the earlier process for the rank's. It answers no fence of a later
// one.
void PmixClients::warn_of_second_start(int rank) {
  if (job_size_ == 1 || clients_of(rank).size() > 1 || std::exchange(warned_of_restart_, true))
    return;
  events_.on_warning(fmt::format(
      "rank {} starts MPI, PMIx or libhvd again, and may wait for ever: an earlier process of it "
      "left without finalize. Processes that follow each other must leave by exit(), not by "
      "_exit() (Python's multiprocessing: get_context(\"spawn\"))",
      rank));
}

void PmixClients::on_timer() {
  if (warn_of_waiting() || waited_ >= limit_) return;
  timer_.start(limit_ - waited_);
  waited_ = limit_;
}

// Warns of a rank that waits in the start of MPI, PMIx or libhvd for ranks that have not begun it.
// Returns whether there is one.
bool PmixClients::warn_of_waiting() {
  std::vector<int> missing;
  for (const int rank : ranks_)
    if (!states_.contains(rank) && events_.pid_of(rank) != 0) missing.push_back(rank);
  if (!missing.empty())
    return warn_of_waiting_for(fmt::format("{}, which {} not", describe_ranks(missing),
                                           missing.size() == 1 ? "has" : "have"));
  // All of this host wait since soon after the first of them has begun.
  return events_.wait_for_hosts() >= waited_ / 2 && warn_of_waiting_for("ranks on other hosts");
}

bool PmixClients::warn_of_waiting_for(const std::string& whom) {
  const auto waits = std::find_if(ranks_.begin(), ranks_.end(), [this](int rank) {
    return left_without_finalize(rank) && events_.pid_of(rank) != 0;
  });
  if (waits == ranks_.end()) return false;
  const auto clients = clients_of(*waits);
  if (clients.empty()) return false;
  const auto& process = clients.back();
  const bool is_first = process.pid == events_.pid_of(*waits);
  if (is_first && waited_ < limit_) return false;
  auto text = fmt::format(
      "rank {} ({}) has started MPI, PMIx or libhvd at least {:.3g} s ago and may wait there for "
      "{}",
      *waits, to_string(process), std::chrono::duration<double>(waited_).count(), whom);
  if (!is_first)
    text += fmt::format(". If {} is to run as one process: `{} {} …`", process.name, kAlone,
                        program_of(process));
  events_.on_warning(text);
  return true;
}

}  // namespace hvdrun
