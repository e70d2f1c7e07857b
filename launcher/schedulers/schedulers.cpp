#include "schedulers/schedulers.hpp"

#include "scheduler/variable_scheduler.hpp"
#include "schedulers/slurm/slurm_scheduler.hpp"

#include <algorithm>
#include <array>

namespace hvdrun {
namespace {

using Form = HostListForm;

constexpr std::string_view kOfPbsHost[] = {"PBS_NODEFILE", "PBS_NODENUM", "PBS_TASKNUM",
                                           "PBS_MOMPORT"};
constexpr std::string_view kOfPalsProcess[] = {"PALS_*"};

// Source: pbs_resources(7B), qsub(1B), LSF's reference of environment variables, sge_pe(5),
// flux-environment(7), oarsub(1), condor_submit(1), PALS mpiexec(1). Grid Engine's JOB_ID is no
// sign: other programs set it.
constexpr SchedulerRow kPbs{
    "PBS", {"PBS_JOBID"},   "PBS_JOBID", {{{Form::lines, "PBS_NODEFILE"}}}, "PBS_NUM_NODES",
    {},    {{}, kOfPbsHost}};
constexpr SchedulerRow kLsf{"LSF",
                            {"LSB_JOBID"},
                            "LSB_JOBID",
                            {{{Form::pairs, "LSB_MCPU_HOSTS"},
                              {Form::words, "LSB_HOSTS"},
                              {Form::lines, "LSB_DJOB_HOSTFILE"}}},
                            ""};
constexpr SchedulerRow kGridEngine{
    "Grid Engine", {"PE_HOSTFILE"}, "JOB_ID", {{{Form::slots, "PE_HOSTFILE"}}}, "NHOSTS"};
constexpr SchedulerRow kOar{"OAR",
                            {"OAR_JOB_ID", "OAR_NODEFILE"},
                            "OAR_JOB_ID",
                            {{{Form::lines, "OAR_NODEFILE"}, {Form::lines, "OAR_FILE_NODES"}}},
                            ""};
constexpr SchedulerRow kCobalt{"Cobalt",
                               {"COBALT_JOBID", "COBALT_NODEFILE"},
                               "COBALT_JOBID",
                               {{{Form::lines, "COBALT_NODEFILE"}}},
                               ""};
constexpr SchedulerRow kLoadLeveler{
    "LoadLeveler", {"LOADL_STEP_ID"}, "LOADL_STEP_ID", {{{Form::lines, "LOADL_HOSTFILE"}}}, ""};
constexpr SchedulerRow kPjm{"PJM", {"PJM_JOBID"}, "PJM_JOBID",
                            {},    "PJM_NODE",    "--hostfile $PJM_O_NODEINF"};
constexpr SchedulerRow kHtCondor{"HTCondor", {"_CONDOR_NPROCS"}, "",
                                 {},         "_CONDOR_NPROCS",   "-H HOST,HOST"};
constexpr SchedulerRow kFlux{
    "Flux", {"FLUX_JOB_ID", "FLUX_URI"}, "FLUX_JOB_ID",
    {},     "FLUX_JOB_NNODES",           "-H \"$(flux getattr hostlist)\""};
constexpr SchedulerRow kPals{"PALS", {"PALS_APID"},  "PALS_APID",         {},
                             "",     "-H HOST,HOST", {kOfPalsProcess, {}}};

bool matches(std::string_view variable, std::string_view name) {
  return name.ends_with('*') ? variable.starts_with(name.substr(0, name.size() - 1))
                             : variable == name;
}

}  // namespace

Schedulers schedulers() {
  static const SlurmScheduler slurm;
  static const VariableScheduler pbs{kPbs};
  static const VariableScheduler lsf{kLsf};
  static const VariableScheduler grid_engine{kGridEngine};
  static const VariableScheduler oar{kOar};
  static const VariableScheduler cobalt{kCobalt};
  static const VariableScheduler load_leveler{kLoadLeveler};
  static const VariableScheduler pjm{kPjm};
  static const VariableScheduler ht_condor{kHtCondor};
  static const VariableScheduler flux{kFlux};
  static const VariableScheduler pals{kPals};
  static const std::array<const Scheduler*, 11> all{
      &slurm,        &pbs, &lsf,       &grid_engine, &oar, &cobalt,
      &load_leveler, &pjm, &ht_condor, &flux,        &pals};
  return all;
}

const Scheduler* scheduler_of(const Environment& environment, Schedulers all) {
  for (const auto* scheduler : all)
    if (scheduler->job_id(environment)) return scheduler;
  return nullptr;
}

bool describes_process(std::string_view variable, Schedulers all) {
  return std::any_of(all.begin(), all.end(), [&](const Scheduler* scheduler) {
    const auto names = scheduler->variables().of_process;
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return matches(variable, name); });
  });
}

bool is_scheduler(pid_t process, Schedulers all) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Scheduler* scheduler) { return scheduler->is_sender(process); });
}

}  // namespace hvdrun
