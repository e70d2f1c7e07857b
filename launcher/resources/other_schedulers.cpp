#include "resources/other_schedulers.hpp"

#include "base/files.hpp"
#include "common/shell_words.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLargest = 1 << 20;  // bytes of a file of hosts

// How a scheduler says which hosts a job has.
enum class Form {
  none,   // by no variable
  lines,  // a file with a host in each line, once for each slot
  slots,  // a file with "HOST SLOTS …" in each line
  words,  // "n1 n1 n2 n2"
  pairs,  // "n1 4 n2 4"
};

struct Scheduler {
  std::string_view name;
  std::array<std::string_view, 2> signs;  // variables, of which a job has one at least
  std::string_view id;                    // the variable with its number
  Form form = Form::none;
  std::string_view hosts;    // the variable with the hosts, or with the file's name
  std::string_view count;    // the variable with the number of hosts
  std::string_view to_type;  // for all hosts; empty: -H with the hosts themselves
};

// A scheduler with several variables has several rows; the first that names hosts is used. Signs
// are variables that nothing else sets: Grid Engine's JOB_ID is none. Source: pbs_resources(7B),
// qsub(1B), LSF's reference of environment variables, sge_pe(5), flux-environment(7), oarsub(1),
// condor_submit(1), PALS mpiexec(1).
constexpr Scheduler kSchedulers[] = {
    {"PBS",
     {"PBS_JOBID"},
     "PBS_JOBID",
     Form::lines,
     "PBS_NODEFILE",
     "PBS_NUM_NODES",
     "--hostfile $PBS_NODEFILE"},
    {"LSF", {"LSB_JOBID"}, "LSB_JOBID", Form::pairs, "LSB_MCPU_HOSTS", "", ""},
    {"LSF", {"LSB_JOBID"}, "LSB_JOBID", Form::words, "LSB_HOSTS", "", ""},
    {"LSF",
     {"LSB_JOBID"},
     "LSB_JOBID",
     Form::lines,
     "LSB_DJOB_HOSTFILE",
     "",
     "--hostfile $LSB_DJOB_HOSTFILE"},
    {"Grid Engine", {"PE_HOSTFILE"}, "JOB_ID", Form::slots, "PE_HOSTFILE", "NHOSTS", ""},
    {"OAR",
     {"OAR_JOB_ID", "OAR_NODEFILE"},
     "OAR_JOB_ID",
     Form::lines,
     "OAR_NODEFILE",
     "",
     "--hostfile $OAR_NODEFILE"},
    {"OAR",
     {"OAR_JOB_ID", "OAR_FILE_NODES"},
     "OAR_JOB_ID",
     Form::lines,
     "OAR_FILE_NODES",
     "",
     "--hostfile $OAR_FILE_NODES"},
    {"Cobalt",
     {"COBALT_JOBID", "COBALT_NODEFILE"},
     "COBALT_JOBID",
     Form::lines,
     "COBALT_NODEFILE",
     "",
     "--hostfile $COBALT_NODEFILE"},
    {"LoadLeveler",
     {"LOADL_STEP_ID"},
     "LOADL_STEP_ID",
     Form::lines,
     "LOADL_HOSTFILE",
     "",
     "--hostfile $LOADL_HOSTFILE"},
    {"PJM", {"PJM_JOBID"}, "PJM_JOBID", Form::none, "", "PJM_NODE", "--hostfile $PJM_O_NODEINF"},
    {"HTCondor", {"_CONDOR_NPROCS"}, "", Form::none, "", "_CONDOR_NPROCS", "-H HOST,HOST"},
    {"Flux",
     {"FLUX_JOB_ID", "FLUX_URI"},
     "FLUX_JOB_ID",
     Form::none,
     "",
     "FLUX_JOB_NNODES",
     "-H \"$(flux getattr hostlist)\""},
    {"PALS", {"PALS_APID"}, "PALS_APID", Form::none, "", "", "-H HOST,HOST"},
};

std::string value_of(const Environment& environment, std::string_view name) {
  const auto* value = name.empty() ? nullptr : find_variable(environment, name);
  return value == nullptr ? std::string() : *value;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < 1)
    return std::nullopt;
  return number;
}

void add(std::vector<HostRequest>& hosts, const Scheduler& scheduler, std::string name,
         std::optional<int> slots) {
  HostRequest host;
  host.name = std::move(name);
  host.slots = slots;
  host.source = scheduler.hosts;
  hosts.push_back(std::move(host));
}

// Returns the hosts in the text of a variable or a file. Returns none if it has another form.
std::vector<HostRequest> hosts_in(const Scheduler& scheduler, const std::string& text) {
  std::vector<HostRequest> hosts;
  std::istringstream words(text);
  std::string name;
  std::string number;
  if (scheduler.form == Form::words) {
    while (words >> name) add(hosts, scheduler, name, std::nullopt);
    return hosts;
  }
  if (scheduler.form == Form::pairs) {
    while (words >> name >> number) {
      const auto slots = number_in(number);
      if (!slots) return {};
      add(hosts, scheduler, name, slots);
    }
    return hosts;
  }
  for (std::string line; std::getline(words, line);) {
    std::istringstream columns(line);
    if (!(columns >> name) || name.front() == '#') continue;
    std::optional<int> slots;
    if (scheduler.form == Form::slots) {
      columns >> number;
      slots = number_in(number);
      if (!slots) return {};
    }
    add(hosts, scheduler, name, slots);
  }
  return hosts;
}

std::vector<HostRequest> hosts_of(const Scheduler& scheduler, const Environment& environment) {
  const auto value = value_of(environment, scheduler.hosts);
  if (value.empty() || scheduler.form == Form::none) return {};
  if (scheduler.form == Form::words || scheduler.form == Form::pairs)
    return hosts_in(scheduler, value);
  const auto text = read_file(value, kLargest, "");
  return text ? hosts_in(scheduler, *text) : std::vector<HostRequest>();
}

// Returns the hosts with their slots as -H takes them.
std::string request_for(const std::vector<HostRequest>& hosts) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size();) {
    int slots = 0;
    const auto& name = hosts[i].name;
    for (; i < hosts.size() && hosts[i].name == name; ++i) slots += hosts[i].slots.value_or(1);
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, slots);
  }
  return text;
}

std::set<std::string> names_of(const ForeignJob& job) {
  std::set<std::string> names;
  for (const auto& host : job.hosts) names.insert(host.name);
  return names;
}

ForeignJob describe(const Scheduler& scheduler, const Environment& environment) {
  ForeignJob job;
  job.scheduler = scheduler.name;
  job.id = value_of(environment, scheduler.id);
  job.hosts = hosts_of(scheduler, environment);
  job.source = job.hosts.empty() ? scheduler.count : scheduler.hosts;
  if (job.hosts.empty())
    job.host_count = number_in(value_of(environment, scheduler.count));
  else
    job.host_count = static_cast<int>(names_of(job).size());
  if (scheduler.form != Form::none && job.hosts.empty())
    job.all_hosts = "-H HOST,HOST";  // the file cannot be read
  else if (scheduler.to_type.empty())
    job.all_hosts = "-H " + request_for(job.hosts);
  else
    job.all_hosts = scheduler.to_type;
  return job;
}

bool has_sign(const Scheduler& scheduler, const Environment& environment) {
  return std::any_of(scheduler.signs.begin(), scheduler.signs.end(),
                     [&](std::string_view sign) { return !value_of(environment, sign).empty(); });
}

}  // namespace

std::optional<ForeignJob> find_foreign_job(const Environment& environment) {
  std::optional<ForeignJob> first;
  for (const auto& scheduler : kSchedulers) {
    if (!has_sign(scheduler, environment)) continue;
    auto job = describe(scheduler, environment);
    if (!job.hosts.empty() || job.host_count) return job;
    if (!first) first = std::move(job);
  }
  return first;
}

Error several_hosts_error(const ForeignJob& job, const std::string& this_machine) {
  constexpr std::size_t kMostNames = 4;
  const auto names = names_of(job);
  std::string hosts = "hosts that its variables do not name";
  if (job.host_count) hosts = plural(*job.host_count, "host");
  if (!names.empty() && names.size() <= kMostNames) {
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + escape(name);
    hosts += " (" + list + ")";
  }
  return usage_error(fmt::format(
      "this is a job of {}{} with {}, and hvdrun finds hosts by itself in SLURM jobs only: type "
      "hvdrun {} … for all of them, by ssh, or hvdrun -H localhost … for {} alone",
      job.scheduler, job.id.empty() ? "" : " (" + escape(job.id) + ")", hosts, job.all_hosts,
      this_machine));
}

}  // namespace hvdrun
