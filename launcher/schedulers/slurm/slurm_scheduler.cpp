#include "schedulers/slurm/slurm_scheduler.hpp"

#include "base/host_list.hpp"
#include "common/file_content.hpp"
#include "common/text.hpp"
#include "slurm/job_environment.hpp"
#include "slurm/node_names.hpp"
#include "slurm/slurm_command.hpp"
#include "slurm/stop_time.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr auto kOfProcess = std::to_array<std::string_view>({
    "SLURM_STEP_*",
    "SLURM_CPU_BIND*",
    "SLURM_SRUN_*",
    "SLURM_MPI_*",
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_TASK_PID",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_DISTRIBUTION",
    "SLURM_NTASKS*",
    "SLURM_NPROCS",
    "SLURM_TASKS_PER_NODE",
    "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NODELIST",
    "SLURM_JOB_NODELIST",
});
constexpr auto kOfHost = std::to_array<std::string_view>({
    "SLURM_JOB_UID",
    "SLURM_JOB_GID",
    "SLURM_JOB_USER",
    "SLURM_UMASK",
    "SLURM_PRIO_PROCESS",
    "SLURM_TOPOLOGY_ADDR_PATTERN",
    "SLURM_WORKING_CLUSTER",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURMD_NODENAME",
    "SLURM_TOPOLOGY_ADDR",
});

// Where SLURM's packages, and a host without a file of its own ("configless"), have it.
constexpr std::array kConfigurations{"etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf",
                                     "run/slurm/conf/slurm.conf", "opt/slurm/etc/slurm.conf",
                                     "usr/local/etc/slurm.conf"};
// Of a slurmd that runs: its file, or the cgroup of systemd's service.
constexpr std::array kDaemons{"run/slurmd.pid",
                              "run/slurm/slurmd.pid",
                              "var/run/slurmd.pid",
                              "var/run/slurm/slurmd.pid",
                              "sys/fs/cgroup/system.slice/slurmd.service",
                              "sys/fs/cgroup/systemd/system.slice/slurmd.service"};

bool has_any(const fs::path& root, const auto& names) {
  return std::ranges::any_of(names, [&](const char* name) {
    std::error_code ignored;
    return fs::exists(root / name, ignored);
  });
}

bool is_in_path(const std::string& program, const Environment& environment) {
  const auto* path = find_variable(environment, "PATH");
  if (path == nullptr) return false;
  for (std::string_view rest = *path;;) {
    const auto colon = rest.find(':');
    const auto file = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return true;
    if (colon == std::string_view::npos) return false;
    rest.remove_prefix(colon + 1);
  }
}

template <class T>
std::optional<T> value_at(const std::vector<T>& values, std::size_t i) {
  return i < values.size() ? std::optional<T>(values[i]) : std::nullopt;
}

JobShare share_of(const Scheduler& scheduler, const SlurmJob& job, std::size_t i) {
  JobShare share;
  share.scheduler = &scheduler;
  share.tasks = value_at(job.tasks, i);
  share.tasks_source = job.tasks_source;
  share.cpus_per_task = job.cpus_per_task;
  share.cpus_per_task_source = "SLURM_CPUS_PER_TASK";
  share.cpus = value_at(job.cpus, i);
  share.cpus_source = "SLURM_JOB_CPUS_PER_NODE";
  share.gpus = share.given_gpus = value_at(job.gpus, i);
  share.gpus_source = job.gpus_source;
  return share;
}

std::vector<std::string> reasons_of(const SlurmJob& job) {
  std::vector<std::string> reasons;
  if (!job.hosts.empty())
    reasons.push_back(fmt::format("{}={} is {}",
                                  job.step.empty() ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST",
                                  fold_hosts(job.hosts), plural(job.hosts.size(), "host")));
  if (!job.tasks.empty())
    reasons.push_back(job.tasks_source +
                      " applies only to hosts without GPUs; others have one rank per GPU");
  if (job.gpus_per_task)
    reasons.push_back("--gpus-per-task: each rank still sees all GPUs of its host");
  return reasons;
}

}  // namespace

Result<std::string> SlurmScheduler::run(std::vector<std::string> command,
                                        const Environment& environment) const {
  const auto program = command.at(0);
  ProgramRequest request;
  request.command = std::move(command);
  request.environment = query_environment(environment);
  HVD_TRY(const auto end, run_slurm(std::move(request)));
  if (end.code != 0) return fail(program + ": " + complaint(end));
  return end.out;
}

// --- the job -------------------------------------------------------------------------------------

std::optional<std::string> SlurmScheduler::job_id(const Environment& environment) const {
  const auto* id = find_variable(environment, "SLURM_JOB_ID");
  return id == nullptr || id->empty() ? std::nullopt : std::optional(*id);
}

Result<ScheduledJob> SlurmScheduler::read_job(const Environment& environment, bool whole,
                                              const Ask& ask) const {
  HVD_TRY(auto found, slurm_job(environment));
  if (!found) return fail("SLURM_JOB_ID is not set");
  auto& slurm = *found;
  if (!slurm.gpus_not_located.empty() && !slurm.hosts.empty() && ask)
    locate_gpus(slurm, ask({"scontrol", "show", "job", "--details", slurm.id}));
  if (whole) use_whole_job(slurm);
  ScheduledJob job;
  job.id = slurm.id;
  job.source = fmt::format("SLURM job {}", slurm.id);
  if (!slurm.step.empty()) job.source = fmt::format("step {} of {}", slurm.step, job.source);
  for (std::size_t i = 0; i < slurm.hosts.size(); ++i)
    job.hosts.push_back({slurm.hosts[i], share_of(*this, slurm, i)});
  if (slurm.hosts.empty())
    job.no_hosts = fmt::format("SLURM_JOB_ID={} is set, but not SLURM_JOB_NODELIST", slurm.id);
  job.this_host = slurm.node_name;
  job.knows_gpus = slurm.gpus_not_located.empty();
  if (slurm.gpus_per_task && !slurm.step.empty()) job.hides_gpus = "--gpus-per-task";
  job.reasons = reasons_of(slurm);
  job.notes = std::move(slurm.notes);
  if (!slurm.step_note.empty()) job.notes.push_back(std::move(slurm.step_note));
  return job;
}

std::vector<JobHostNames> SlurmScheduler::all_names(const std::vector<std::string>& hosts,
                                                    const Ask& ask) const {
  std::vector<JobHostNames> names;
  if (!ask) return names;
  const auto text = ask({"scontrol", "show", "node", fold_hosts(hosts)});
  if (!text) return names;
  for (auto& node : parse_node_names(*text))
    names.push_back({std::move(node.name), std::move(node.address), std::move(node.host_name)});
  return names;
}

std::string SlurmScheduler::line_for_gpus(int gpus, std::optional<std::size_t> hosts) const {
  return fmt::format("#SBATCH {}--gpus-per-node={} --ntasks-per-node={}",
                     hosts ? fmt::format("--nodes={} ", *hosts) : "", gpus, gpus);
}

bool SlurmScheduler::is_batch(const Environment& environment) const {
  const auto* kind = find_variable(environment, "ENVIRONMENT");
  return kind != nullptr && *kind == "BATCH";
}

// --- variables -----------------------------------------------------------------------------------

SchedulerVariables SlurmScheduler::variables() const {
  return {kOfProcess, kOfHost};
}

const std::string* SlurmScheduler::gpus_here(const Environment& environment) const {
  if (find_variable(environment, "SLURMD_NODENAME") == nullptr) return nullptr;
  return gpus_of_slurm(environment);
}

std::vector<RankVariable> SlurmScheduler::variables_here(const Environment& environment) const {
  const auto* gpus = gpus_of_slurm(environment);
  if (gpus == nullptr) return {};
  return {{"SLURM_STEP_GPUS", *gpus, "the GPUs that SLURM gave on this host"}};
}

// --- time and signals ----------------------------------------------------------------------------

bool SlurmScheduler::is_sender(pid_t process) const {
  return first_line_of("/proc/" + std::to_string(process) + "/comm") == "slurmstepd";
}

std::optional<std::chrono::milliseconds> SlurmScheduler::time_after_sigterm(
    const Environment& environment) const {
  return hvdrun::time_after_sigterm(environment);
}

// --- the queue -----------------------------------------------------------------------------------

JobPart SlurmScheduler::part(const Environment& environment) const {
  JobPart part;
  const auto* array = find_variable(environment, "SLURM_ARRAY_JOB_ID");
  const auto* task = find_variable(environment, "SLURM_ARRAY_TASK_ID");
  // A task of an array is named by its index: one task has the array's own number, which would name
  // all of them.
  if (array != nullptr && task != nullptr)
    part.job = *array + "_" + *task;
  else if (const auto* job = find_variable(environment, "SLURM_JOB_ID"); job != nullptr)
    part.job = *job;
  const auto* count = find_variable(environment, "SLURM_RESTART_COUNT");
  if (count != nullptr && !part.job.empty())
    std::from_chars(count->data(), count->data() + count->size(), part.number);
  return part;
}

Result<void> SlurmScheduler::check_requeue(const Environment& environment) const {
  if (is_in_path("scontrol", environment)) return {};
  return fail(
      "the job cannot go back into the queue, because scontrol is not in PATH; load SLURM's "
      "module, or add its folder to PATH");
}

Result<void> SlurmScheduler::requeue(const std::string& job, const Environment& environment) const {
  ProgramRequest request;
  request.command = {"scontrol", "requeue", job};
  request.environment = query_environment(environment);
  HVD_TRY(const auto end, run_slurm(std::move(request)));
  // SLURM ends the job's processes, perhaps including scontrol before it exits.
  if (end.code == 0 || end.code == kExitSignalBase + SIGTERM) return {};
  return fail(complaint(end));
}

// --- hosts outside its jobs ----------------------------------------------------------------------

bool SlurmScheduler::is_login_node(const Environment& environment, const fs::path& root) const {
  std::error_code ignored;
  const auto* file = find_variable(environment, "SLURM_CONF");
  const bool is_named = file != nullptr && fs::exists(*file, ignored);
  return (is_named || has_any(root, kConfigurations)) && !has_any(root, kDaemons);
}

}  // namespace hvdrun
