#include "control/running_jobs.hpp"

#include "base/process_state.hpp"
#include "common/file_content.hpp"
#include "common/text.hpp"
#include "control/control_folder.hpp"
#include "control/job_now_json.hpp"
#include "slurm/quoting.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kTimeout{1000};
// How long an hvdrun that has just begun may need until it can be asked.
constexpr std::chrono::milliseconds kBeginning{3000};
constexpr std::chrono::milliseconds kPause{10};

std::optional<long> number_in(const std::string& text) {
  long number = 0;
  const auto* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && after == end && number > 0 ? std::optional(number) : std::nullopt;
}

std::string user_name(uid_t user) {
  const passwd* const entry = ::getpwuid(user);
  return entry != nullptr ? entry->pw_name : "user " + std::to_string(user);
}

// A process of hvdrun's: its name, such as "hvdrun" or "hvdrun-agent", and its user.
struct HvdrunProcess {
  std::string name;
  uid_t user;
};

// Returns nullopt when the process has ended, or runs another program.
std::optional<HvdrunProcess> hvdrun_process(long pid) {
  struct stat status {};
  const auto process = fmt::format("/proc/{}", pid);
  const auto name = first_line_of(process + "/comm");
  if (!name.starts_with("hvdrun") || process_state(static_cast<pid_t>(pid)) == 'Z' ||
      ::stat(process.c_str(), &status) != 0)
    return std::nullopt;
  return HvdrunProcess{name, status.st_uid};
}

// Returns why a process that runs hvdrun is not among the jobs; empty: it is none.
std::string why_not_listed(long pid) {
  const auto process = hvdrun_process(pid);
  if (!process) return {};
  if (process->name != "hvdrun")
    return fmt::format("process {} is {}, a part of a job; its hvdrun is meant", pid,
                       process->name);
  if (process->user == ::geteuid())
    return fmt::format(
        "hvdrun {} cannot be looked into: it is of a version without `hvdrun top`, has just "
        "begun, runs no job, or could make no socket, which it has said in a warning",
        pid);
  const auto user = user_name(process->user);
  return fmt::format("hvdrun {} is {}'s, and only {} can look into it", pid, user, user);
}

bool is_among(const std::vector<RunningJob>& jobs, long pid) {
  return std::ranges::any_of(jobs, [&](const RunningJob& job) { return job.pid == pid; });
}

// Returns whether the process is an hvdrun of this user, of whose job nothing is seen.
bool may_have_just_begun(const std::vector<RunningJob>& jobs, long pid) {
  if (is_among(jobs, pid)) return false;
  const auto process = hvdrun_process(pid);
  return process && process->name == "hvdrun" && process->user == ::geteuid();
}

std::string list_of(const std::vector<RunningJob>& jobs) {
  std::string lines;
  for (const auto& job : jobs) lines += "\n" + job_line(job);
  return lines;
}

Error not_found(const std::vector<RunningJob>& jobs, const std::string& name) {
  const auto number = number_in(name);
  auto text = number ? why_not_listed(*number) : std::string();
  if (!number)
    text = fmt::format("{} is no job: hvdrun's process or the number of a SLURM job names one",
                       quote_if_needed(name));
  if (text.empty())
    text = fmt::format(
        "no job {} of yours runs on this machine: there was none, it has ended, "
        "or its hvdrun runs on another machine",
        name);
  if (!jobs.empty()) text += "; these run here:" + list_of(jobs);
  return fail(text, kExitUsage);
}

}  // namespace

std::vector<RunningJob> running_jobs(const Environment& environment) {
  std::vector<RunningJob> jobs;
  std::vector<ControlClient> clients;  // of those jobs that are asked, in the same order
  std::vector<std::size_t> asked;
  auto folders = control_folders(environment);
  std::ranges::move(other_control_folders(environment), std::back_inserter(folders));
  for (const auto& path : folders) {
    const auto folder = open_control_folder(path);
    if (!folder) continue;
    for (const auto& name : control_names(*folder)) {
      auto client = ControlClient::connect({path, name});
      if (!client && client.error().message.empty()) continue;
      const pid_t pid = client && client->pid() != 0 ? client->pid() : *pid_in(name);
      auto& job = jobs.emplace_back(RunningJob{{path, name}, pid, {}, {}});
      if (!client) {
        job.trouble = client.error().message;
      } else if (auto sent = client->send("about", ControlJson::object()); !sent) {
        job.trouble = sent.error().message;
      } else {
        clients.push_back(std::move(*client));
        asked.push_back(jobs.size() - 1);
      }
    }
  }
  Patience patience(kTimeout);
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    auto& job = jobs[asked[i]];
    const auto answer = clients[i].receive(patience);
    if (answer)
      job.about = job_about_from(*answer);
    else
      job.trouble = answer.error().message;
    if (clients[i].has_ended()) ended.push_back(asked[i]);
  }
  std::ranges::reverse(ended);
  for (const auto index : ended) jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(index));
  std::ranges::stable_sort(jobs, {}, [](const RunningJob& job) { return job.about.begun; });
  return jobs;
}

std::vector<RunningJob> running_jobs_with(const std::optional<std::string>& name,
                                          const Environment& environment) {
  auto jobs = running_jobs(environment);
  const auto pid = name ? number_in(*name) : std::nullopt;
  const auto end = std::chrono::steady_clock::now() + kBeginning;
  while (pid && may_have_just_begun(jobs, *pid) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
    jobs = running_jobs(environment);
  }
  return jobs;
}

Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs,
                              const std::optional<std::string>& name, const std::string& command) {
  std::vector<RunningJob> found;
  for (const auto& job : jobs)
    if (!name || std::to_string(job.pid) == *name || job.about.scheduler_job == *name)
      found.push_back(job);
  if (found.empty() && name) return not_found(jobs, *name);
  if (found.empty())
    return fail("no job of yours runs on this machine (hvdrun jobs lists those in SLURM's queue)",
                kExitUsage);
  if (found.size() > 1)
    return fail(fmt::format("{} of yours run here; name one, such as {} {}:{}",
                            plural(found.size(), "job"), command, found.back().pid, list_of(found)),
                kExitUsage);
  if (!found.front().trouble.empty()) return fail(found.front().trouble);
  return found.front();
}

Result<ControlClient> connect_to_job(const std::vector<RunningJob>& jobs,
                                     const std::optional<std::string>& name,
                                     const std::string& command) {
  HVD_TRY(const auto job, choose_job(jobs, name, command));
  auto client = ControlClient::connect(job.socket);
  if (!client && client.error().message.empty()) return fail("the job has just ended", kExitUsage);
  return client;
}

std::string job_line(const RunningJob& job) {
  if (!job.trouble.empty()) return fmt::format("  {:<8} {}", job.pid, job.trouble);
  const auto& about = job.about;
  auto size = about.ranks == 0 ? about.phase : size_text(about);
  if (!about.scheduler_job.empty())
    size += fmt::format(", {} job {}", about.scheduler, about.scheduler_job);
  return fmt::format("  {:<8} {}  {}", job.pid, size, command_text(about.command));
}

std::string size_text(const JobAbout& about) {
  auto text = plural(about.ranks, "rank");
  if (about.spares > 0) text += " and " + plural(about.spares, "spare");
  text += " on " + plural(about.hosts, "host");
  return about.lost == 0 ? text : fmt::format("{}, {} lost", text, about.lost);
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + quote_for_shell(word);
  return text;
}

}  // namespace hvdrun
