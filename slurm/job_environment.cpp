#include "slurm/job_environment.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "slurm/counts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::string_view kHowToSayHosts =
    "use ssh without SLURM: env -u SLURM_JOB_ID hvdrun -H n1:4,n2:4";

// Steps that srun did not start (slurm.h: SLURM_INTERACTIVE_STEP, SLURM_BATCH_SCRIPT,
// SLURM_EXTERN_CONT). Their processes see the whole job.
constexpr std::string_view kStepsOfTheJob[] = {"4294967290", "4294967291", "4294967292"};

// A variable and its value; nullptr if it is unset.
struct Variable {
  std::string_view name;
  const std::string* value = nullptr;

  explicit operator bool() const { return value != nullptr; }
};

Variable first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const auto name : names)
    if (const std::string* value = find_variable(environment, name)) return {name, value};
  return {};
}

std::string text_of(const Variable& variable) {
  return variable ? *variable.value : std::string();
}

// Reads the value of a variable that is set. Its error names the variable and says what to do.
template <class Read>
auto read(const Variable& variable, Read read_value) -> decltype(read_value("")) {
  auto value = read_value(*variable.value);
  if (value) return value;
  return usage_error(fmt::format("{}: {}; correct it, unset it, or {}", variable.name,
                                 value.error().message, kHowToSayHosts));
}

Result<int> read_positive(std::string_view text) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stop != end || count < 1)
    return usage_error(fmt::format("{} is no count of 1 or more", quote(text)));
  return count;
}

Result<std::optional<int>> read_count(const Variable& variable) {
  if (!variable) return std::optional<int>();
  HVD_TRY(const int count, read(variable, read_positive));
  return std::optional<int>(count);
}

// Error: the job is heterogeneous.
Result<void> refuse_heterogeneous(const Environment& environment, const std::string& id) {
  std::string groups;
  for (int i = 0;; ++i) {
    const auto name = fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", i);
    const std::string* hosts = find_variable(environment, name);
    if (hosts == nullptr) break;
    groups += (groups.empty() ? "" : ",") + *hosts;
  }
  if (groups.empty() && find_variable(environment, "SLURM_HET_SIZE") == nullptr) return {};
  return usage_error(fmt::format(
      "SLURM job {} is heterogeneous (several allocations in one job), which hvdrun does not take; "
      "ask for all hosts in one request (#SBATCH --nodes=N), or use ssh: env -u SLURM_JOB_ID "
      "hvdrun -H {}",
      id, groups.empty() ? "n1:4,n2:2" : groups));
}

// Reads the variables of one job. Each take_… function fills in its members of the job.
class JobReader {
 public:
  JobReader(const Environment& environment, std::string id) : environment_(environment) {
    job_.id = std::move(id);
  }

  Result<SlurmJob> run() {
    job_.node_name = text_of(find({"SLURMD_NODENAME"}));
    HVD_CHECK(take_hosts());
    HVD_CHECK(take_tasks());
    HVD_CHECK(take_cpus());
    HVD_CHECK(take_gpus());
    return std::move(job_);
  }

 private:
  Variable find(std::initializer_list<std::string_view> names) const {
    return first_set(environment_, names);
  }

  Result<void> take_hosts() {
    HVD_TRY(auto hosts, read_hosts({"SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
    HVD_TRY(auto of_step, read_step(hosts));
    job_.hosts = of_step.empty() ? std::move(hosts) : std::move(of_step);

    const bool in_step = !job_.step.empty();
    const auto list =
        in_step ? find({"SLURM_STEP_NODELIST"}) : find({"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    const auto number =
        in_step ? find({"SLURM_STEP_NUM_NODES"}) : find({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    HVD_TRY(const auto count, read_count(number));
    if (list && count && job_.hosts.size() != static_cast<std::size_t>(*count))
      return usage_error(fmt::format("{}={} contradicts {}={}, which names {}; {}", number.name,
                                     *count, list.name, quote_if_needed(*list.value),
                                     plural(job_.hosts.size(), "host"), kHowToSayHosts));
    if (!list && count.value_or(1) > 1)
      return usage_error(
          fmt::format("SLURM job {} has {} ({}), but SLURM_JOB_NODELIST does not say "
                      "which; {}",
                      job_.id, plural(*count, "host"), number.name, kHowToSayHosts));
    if (!list)
      job_.notes.push_back(fmt::format(
          "SLURM_JOB_ID={} is set, but not SLURM_JOB_NODELIST: only this machine is used",
          job_.id));
    return {};
  }

  Result<std::vector<std::string>> read_hosts(std::initializer_list<std::string_view> names) const {
    const auto list = find(names);
    if (!list) return std::vector<std::string>();
    HVD_TRY(auto hosts, read(list, expand_host_list));
    std::unordered_set<std::string_view> seen;
    for (const auto& host : hosts)
      if (!seen.insert(host).second)
        return usage_error(fmt::format("{} names {} twice; {}", list.name, host, kHowToSayHosts));
    return hosts;
  }

  // Returns the hosts of the step that this process runs in and sets job_.step. Returns no hosts
  // outside a step.
  Result<std::vector<std::string>> read_step(const std::vector<std::string>& of_job) {
    const auto id = step_of_srun(environment_);
    if (id.empty()) return std::vector<std::string>();
    HVD_TRY(auto hosts, read_hosts({"SLURM_STEP_NODELIST"}));
    const std::unordered_set<std::string_view> known(of_job.begin(), of_job.end());
    const bool is_ours = std::all_of(hosts.begin(), hosts.end(),
                                     [&](const auto& host) { return known.contains(host); });
    // A batch script inherits the variables of the shell that submitted it.
    if (!is_ours) {
      job_.notes.push_back(fmt::format("SLURM_STEP_NODELIST={} is not of job {} and is ignored",
                                       quote_if_needed(*find({"SLURM_STEP_NODELIST"}).value),
                                       job_.id));
      return std::vector<std::string>();
    }
    if (hosts.empty()) return hosts;
    job_.step = id;
    HVD_CHECK(refuse_several());
    const std::unordered_set<std::string_view> in_step(hosts.begin(), hosts.end());
    for (const auto& host : of_job)
      if (!in_step.contains(host)) job_.outside_step.push_back(host);
    if (!job_.outside_step.empty())
      job_.step_note = fmt::format(
          "srun has started hvdrun in a step on {} of the {} hosts of SLURM job {}, and only there "
          "are ranks; without srun, hvdrun uses all",
          hosts.size(), of_job.size(), job_.id);
    return hosts;
  }

  // Error: srun started this hvdrun as one of several tasks. srun starts its command once for each
  // task. With --pty there may be several, because only the first one has the terminal.
  Result<void> refuse_several() const {
    HVD_TRY(const auto tasks, read_count(find({"SLURM_STEP_NUM_TASKS"})));
    if (tasks.value_or(1) == 1 || find({"SLURM_PTY_PORT"})) return {};
    return usage_error(fmt::format(
        "srun has started hvdrun {} times (this is task {} of step {} of SLURM job {}), and each "
        "would start the whole job; start it once, without srun: in the batch script, or in the "
        "shell of salloc",
        *tasks, find({"SLURM_PROCID"}) ? *find({"SLURM_PROCID"}).value : "?", job_.step, job_.id));
  }

  Result<void> take_tasks() {
    HVD_TRY(job_.cpus_per_task, read_count(find({"SLURM_CPUS_PER_TASK"})));
    const bool in_step = !job_.step.empty();
    const auto total =
        in_step ? find({"SLURM_STEP_NUM_TASKS"}) : find({"SLURM_NTASKS", "SLURM_NPROCS"});
    const auto each = in_step ? Variable{} : find({"SLURM_NTASKS_PER_NODE"});
    const auto list =
        find({in_step ? std::string_view("SLURM_STEP_TASKS_PER_NODE") : "SLURM_TASKS_PER_NODE"});
    HVD_TRY(const auto tasks, read_count(total));
    HVD_TRY(const auto tasks_each, read_count(each));
    // srun without -n has one task, which the user did not request.
    if ((!tasks && !tasks_each) || (in_step && tasks == 1)) return {};
    job_.tasks_source = tasks ? total.name : each.name;
    if (list) return take_task_list(list, total, tasks);
    const std::size_t hosts = std::max<std::size_t>(job_.hosts.size(), 1);
    if (!tasks_each && hosts > 1)
      return usage_error(
          fmt::format("{}={} does not say how many tasks each of {} has, and "
                      "SLURM_TASKS_PER_NODE is not set; {}",
                      total.name, *tasks, plural(hosts, "host"), kHowToSayHosts));
    job_.tasks.assign(hosts, hosts == 1 && tasks ? *tasks : *tasks_each);
    return {};
  }

  Result<void> take_task_list(const Variable& list, const Variable& total,
                              std::optional<int> tasks) {
    HVD_TRY(job_.tasks, read_by_host(list));
    const auto sum = std::accumulate(job_.tasks.begin(), job_.tasks.end(), std::int64_t{0});
    if (tasks && sum != *tasks)
      job_.notes.push_back(
          fmt::format("{}={} contradicts {}={}, which makes {}: the latter applies", total.name,
                      *tasks, list.name, *list.value, sum));
    return {};
  }

  // Reads one count for each host. Error: the variable is for another number of hosts.
  Result<std::vector<int>> read_by_host(const Variable& list) const {
    HVD_TRY(auto counts, read(list, expand_counts));
    const std::size_t hosts = std::max<std::size_t>(job_.hosts.size(), 1);
    if (counts.size() != hosts)
      return usage_error(fmt::format("{}={} is for {}, but the job has {}; {}", list.name,
                                     quote_if_needed(*list.value), plural(counts.size(), "host"),
                                     hosts, kHowToSayHosts));
    return counts;
  }

  Result<void> take_cpus() {
    const auto list = find({"SLURM_JOB_CPUS_PER_NODE"});
    if (!list || !job_.step.empty()) return {};  // a step may have fewer
    HVD_TRY(job_.cpus, read_by_host(list));
    return {};
  }

  Result<void> take_gpus() {
    const std::size_t hosts = std::max<std::size_t>(job_.hosts.size(), 1);
    const auto per_task = find({"SLURM_GPUS_PER_TASK"});
    if (per_task) {
      HVD_TRY(job_.gpus_per_task, read(per_task, count_gpus));
    } else if (const Variable bind = find({"SLURMD_TRES_BIND"})) {
      // The only trace of srun --gpus-per-task in its step: "gpu:per_task:1".
      constexpr std::string_view kPerTask = "gpu:per_task:";
      const std::string_view text = *bind.value;
      const auto at = text.find(kPerTask);
      int gpus = 0;
      if (at != std::string_view::npos)
        std::from_chars(text.data() + at + kPerTask.size(), text.data() + text.size(), gpus);
      if (gpus > 0) job_.gpus_per_task = gpus;
    }
    if (const auto each = find({"SLURM_GPUS_PER_NODE"})) {
      HVD_TRY(const int gpus, read(each, count_gpus));
      return set_gpus(std::vector<int>(hosts, gpus), each);
    }
    if (per_task && job_.tasks.size() == hosts) return take_gpus_by_task(per_task);
    if (const auto total = find({"SLURM_GPUS"})) {
      HVD_TRY(const int gpus, read(total, count_gpus));
      if (hosts == 1 || gpus == 0) return set_gpus(std::vector<int>(hosts, gpus), total);
    }
    // The variable is named as the user typed the option. --gpus=8 --gpus-per-task=1 sets both.
    if (const auto asked = find({"SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET"})) {
      job_.gpus_not_located = fmt::format("{}={}", asked.name, *asked.value);
      return {};
    }
    // --gres gives all hosts the same number. It sets a variable only on the hosts themselves.
    const auto here = find({"SLURM_GPUS_ON_NODE"});
    if (!here || job_.node_name.empty()) return {};
    HVD_TRY(const int gpus, read(here, count_gpus));
    return set_gpus(std::vector<int>(hosts, gpus), here);
  }

  Result<void> take_gpus_by_task(const Variable& per_task) {
    std::vector<int> gpus = job_.tasks;
    for (int& count : gpus)
      if (__builtin_mul_overflow(count, *job_.gpus_per_task, &count))
        return usage_error(fmt::format("{}={} makes more GPUs than can be counted; {}",
                                       per_task.name, quote_if_needed(*per_task.value),
                                       kHowToSayHosts));
    return set_gpus(std::move(gpus), per_task);
  }

  Result<void> set_gpus(std::vector<int> gpus, const Variable& source) {
    job_.gpus = std::move(gpus);
    job_.gpus_source = source.name;
    return {};
  }

  const Environment& environment_;
  SlurmJob job_;
};

}  // namespace

std::string step_of_srun(const Environment& environment) {
  const auto id = first_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!id || find_variable(environment, HVD_ENV_JOB_ID) != nullptr ||
      std::find(std::begin(kStepsOfTheJob), std::end(kStepsOfTheJob), *id.value) !=
          std::end(kStepsOfTheJob))
    return {};
  return *id.value;
}

const std::string* gpus_of_slurm(const Environment& environment) {
  return find_variable(environment,
                       step_of_srun(environment).empty() ? "SLURM_JOB_GPUS" : "SLURM_STEP_GPUS");
}

void locate_gpus(SlurmJob& job, const Result<std::string>& description) {
  auto by_host = description ? count_gpus_by_host(*description, job.hosts) : description.error();
  if (by_host) {
    job.gpus = std::move(*by_host);
    job.gpus_source = job.gpus_not_located.substr(0, job.gpus_not_located.find('='));
  } else {
    job.notes.push_back(fmt::format(
        "{} does not say how many GPUs each host has, and SLURM does not either ({}); each host "
        "uses what its step is given, which may be fewer",
        job.gpus_not_located, by_host.error().message));
  }
}

void use_whole_job(SlurmJob& job) {
  job.hosts.insert(job.hosts.end(), job.outside_step.begin(), job.outside_step.end());
  job.outside_step.clear();
  job.step_note.clear();
}

Result<std::optional<SlurmJob>> slurm_job(const Environment& environment) {
  const std::string* id = find_variable(environment, "SLURM_JOB_ID");
  if (id == nullptr || id->empty()) return std::optional<SlurmJob>();
  HVD_CHECK(refuse_heterogeneous(environment, *id));
  HVD_TRY(auto job, JobReader(environment, *id).run());
  return std::optional<SlurmJob>(std::move(job));
}

}  // namespace hvdrun
