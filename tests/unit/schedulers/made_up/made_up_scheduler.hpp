// A scheduler that exists in these tests only: all that a scheduler needs is one class and one row.
#pragma once

#include "schedulers/schedulers.hpp"

#include <array>
#include <string>
#include <vector>

namespace hvdrun {

class MadeUpScheduler final : public Scheduler {
 public:
  std::string_view name() const override { return "Queuer"; }

  std::optional<std::string> job_id(const Environment& environment) const override {
    const auto* id = find_variable(environment, "QUEUER_JOB");
    return id == nullptr ? std::nullopt : std::optional(*id);
  }

  // QUEUER_HOSTS is "a b c"; each host has QUEUER_GPUS GPUs.
  Result<ScheduledJob> read_job(const Environment& environment, bool, const Ask&) const override {
    ScheduledJob job;
    job.id = *job_id(environment);
    job.source = "Queuer job " + job.id;
    job.this_host = "a";
    JobShare share;
    share.scheduler = this;
    if (const auto* gpus = find_variable(environment, "QUEUER_GPUS"))
      share.gpus = share.given_gpus = std::stoi(*gpus);
    share.gpus_source = "QUEUER_GPUS";
    for (const auto name : environment.at("QUEUER_HOSTS"))
      if (name != ' ') job.hosts.push_back({std::string(1, name), share});
    return job;
  }
  std::optional<StartedBy> started_by() const override { return StartedBy::ssh; }

  std::vector<JobHostNames> all_names(const std::vector<std::string>&, const Ask&) const override {
    return {{"b", "10.0.0.2", "beta"}};
  }

  SchedulerVariables variables() const override {
    static constexpr std::array<std::string_view, 1> kOfProcess{"QUEUER_TASK*"};
    static constexpr std::array<std::string_view, 1> kOfHost{"QUEUER_SPOOL"};
    return {kOfProcess, kOfHost};
  }
  const std::string* gpus_here(const Environment& environment) const override {
    return find_variable(environment, "QUEUER_GPU_NUMBERS");
  }
  std::string_view no_devices() const override { return "nil"; }

  bool is_sender(pid_t process) const override { return process == 4711; }
  bool is_login_node(const Environment& environment,
                     const std::filesystem::path& /*root*/) const override {
    return find_variable(environment, "QUEUER_CONF") != nullptr;
  }
  std::string_view to_submit() const override { return "queue-it submits a job"; }
};

// Returns a table with the made-up scheduler alone.
inline Schedulers made_up_schedulers() {
  static const MadeUpScheduler row;
  static const std::array<const Scheduler*, 1> table{&row};
  return table;
}

}  // namespace hvdrun
