#include "cli/foreign_options.hpp"

#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {
namespace {

constexpr std::string_view kTuning = "it tunes Horovod's engine, which hvdrun does not use";
constexpr std::string_view kController = "hvdrun brings the ranks together itself";
constexpr std::string_view kLogging = "it is about Horovod's own messages; see --verbose";
constexpr std::string_view kCache = "hvdrun caches nothing between jobs";
constexpr std::string_view kCycle =
    "there is no cycle: collectives begin when the ranks have submitted them";
constexpr std::string_view kMarkCycles =
    "the variable does it: -x HOROVOD_TIMELINE_MARK_CYCLES=1 marks the rounds of libhvd's engine";
constexpr std::string_view kElastic =
    "a job gets no ranks after its start; --min-np M continues without ranks that are lost, and "
    "--max-restarts N starts a job again that has failed";
constexpr std::string_view kBinding =
    "hvdrun binds ranks to cores by itself; --bind-to and --cpus-per-rank say how";

constexpr std::string_view kHorovodrun = "horovodrun";
constexpr std::string_view kTorchrun = "torchrun";
constexpr std::string_view kMpirun = "mpirun";
constexpr std::string_view kSrun = "srun";
constexpr std::string_view kSbatch = "sbatch";
constexpr std::string_view kAccelerate = "accelerate";
constexpr std::string_view kDeepspeed = "deepspeed";
constexpr std::string_view kOthers = "other launchers";

constexpr std::string_view kStartedOnce =
    "start hvdrun once, on one host, with -H HOST,HOST: it starts the ranks on all of them";
constexpr std::string_view kRankFiles = "use --output-filename DIR, a file for each rank";
constexpr std::string_view kLabels = "labels are on; --label changes them";
constexpr std::string_view kSetVariable = "use -x NAME=VALUE";
constexpr std::string_view kFolder =
    "ranks run in the folder in which hvdrun is started: cd FOLDER && hvdrun …";
constexpr std::string_view kNoTerminal = "use --tty RANK, which gives hvdrun's terminal to a rank";

using Kind = ForeignOption::Kind;
using Spellings = std::array<std::string_view, 3>;

constexpr ForeignOption flag_without_effect(std::string_view spelling, std::string_view reason) {
  return {{spelling}, kHorovodrun, Kind::accepted, false, reason};
}

constexpr ForeignOption value_without_effect(std::string_view spelling, std::string_view reason) {
  return {{spelling}, kHorovodrun, Kind::accepted, true, reason};
}

constexpr ForeignOption refused(std::string_view spelling, std::string_view reason,
                                std::string_view other_spelling = "") {
  return {{spelling, other_spelling}, kHorovodrun, Kind::refused, false, reason};
}

constexpr ForeignOption same(std::string_view of, Spellings spellings, std::string_view ours) {
  return {spellings, of, Kind::same, true, ours};
}

constexpr ForeignOption ignored(std::string_view of, Spellings spellings, std::string_view reason) {
  return {spellings, of, Kind::accepted, false, reason};
}

constexpr ForeignOption answered(std::string_view of, Spellings spellings,
                                 std::string_view reason) {
  return {spellings, of, Kind::refused, true, reason};
}

constexpr ForeignOption for_batch(ForeignOption option) {
  option.batch_only = true;
  return option;
}

constexpr ForeignOption kForeignOptions[] = {
    flag_without_effect("--disable-cache", kCache),
    flag_without_effect("--gloo", kController),
    flag_without_effect("--mpi", kController),

    value_without_effect("--cycle-time-ms", kCycle),
    flag_without_effect("--hierarchical-allreduce", kTuning),
    flag_without_effect("--no-hierarchical-allreduce", kTuning),
    flag_without_effect("--hierarchical-allgather", kTuning),
    flag_without_effect("--no-hierarchical-allgather", kTuning),
    flag_without_effect("--torus-allreduce", kTuning),
    flag_without_effect("--no-torus-allreduce", kTuning),
    value_without_effect("--autotune-warmup-samples", kTuning),
    value_without_effect("--autotune-steps-per-sample", kTuning),
    value_without_effect("--autotune-bayes-opt-max-samples", kTuning),
    value_without_effect("--autotune-gaussian-process-noise", kTuning),
    value_without_effect("--num-nccl-streams", kTuning),
    flag_without_effect("--mpi-threads-disable", kTuning),
    flag_without_effect("--no-mpi-threads-disable", kTuning),
    value_without_effect("--gloo-timeout-seconds", kTuning),
    flag_without_effect("--timeline-mark-cycles", kMarkCycles),
    flag_without_effect("--no-timeline-mark-cycles", kMarkCycles),
    value_without_effect("--log-level", kLogging),
    flag_without_effect("--log-with-timestamp", kLogging),
    flag_without_effect("--log-without-timestamp", kLogging),
    flag_without_effect("--log-hide-timestamp", kLogging),
    flag_without_effect("--no-log-hide-timestamp", kLogging),

    refused("--host-discovery-script", kElastic),
    refused("--max-np", kElastic, "--max-num-proc"),
    refused("--slots-per-host", "use --ranks-per-host K"),
    refused("--elastic-timeout", kElastic),
    refused("--reset-limit", kElastic),
    refused("--blacklist-cooldown-range", kElastic),
    refused("--mpi-args",
            "hvdrun calls no mpirun; Open MPI reads the variables OMPI_MCA_*, which reach the "
            "ranks: -x OMPI_MCA_NAME=VALUE for --mca NAME VALUE"),
    refused("--tcp", "hvdrun calls no mpirun; to keep NCCL off InfiniBand: -x NCCL_IB_DISABLE=1"),
    refused("--binding-args", kBinding),
    refused("--thread-affinity", kBinding),
    refused("--jsrun",
            "hvdrun starts the ranks itself: through ssh on the hosts of -H or --hostfile, or in a "
            "SLURM job"),

    same(kSrun, {"-n", "--ntasks"}, "-np"),
    same(kSrun, {"--ntasks-per-node"}, "--ranks-per-host"),
    same(kSrun, {"--nodes"}, "--nnodes"),
    same(kSrun, {"-c", "--cpus-per-task"}, "--cpus-per-rank"),
    ignored(kSrun, {"-l"}, kLabels),
    answered(kSrun, {"-N"},
             "use --nnodes N for N hosts, or --ranks-per-host K for K ranks on each"),
    answered(kSrun, {"--gpus-per-task"},
             "each rank has one GPU; --gpu-bind single hides the others"),
    answered(kSrun, {"--pty"}, kNoTerminal),
    answered(kSrun, {"-w", "--nodelist"},
             "use -H HOST,HOST; for a request to SLURM, hvdrun sbatch has "
             "--sbatch-arg=--nodelist=HOSTS"),
    answered(kSrun, {"--export"},
             "the ranks get the caller's environment; -x NAME=VALUE changes it"),

    same(kMpirun, {"--host", "-host"}, "-H"),
    same(kMpirun, {"--machinefile", "-machinefile", "-f"}, "--hostfile"),
    same(kMpirun, {"-ppn", "-perhost", "--npernode"}, "--ranks-per-host"),
    same(kMpirun, {"-npernode"}, "--ranks-per-host"),
    ignored(kMpirun, {"--allow-run-as-root"}, ""),
    ignored(kMpirun, {"--tag-output", "-tag-output"}, kLabels),
    ignored(kMpirun, {"--prepend-rank", "-prepend-rank"}, kLabels),
    answered(kMpirun, {"--mca", "-mca"},
             "use -x OMPI_MCA_NAME=VALUE for --mca NAME VALUE: -x OMPI_MCA_btl=tcp,self"),
    answered(kMpirun, {"-wdir", "--wdir", "--chdir"}, kFolder),
    answered(kMpirun, {"-genv", "-env", "-envlist"}, kSetVariable),
    answered(kMpirun, {"-genvlist", "-genvall"}, "the ranks get the caller's environment"),
    answered(kMpirun, {"--timeout", "-timeout"}, "use timeout SECONDS hvdrun …"),

    same(kTorchrun, {"--nproc-per-node"}, "--ranks-per-host"),
    ignored(kTorchrun, {"--standalone"}, "this machine is the default without -H and --hostfile"),
    ignored(kTorchrun, {"--no-python"}, "hvdrun starts any program"),
    answered(kTorchrun, {"-m"}, "use hvdrun … python3 -m MODULE"),
    answered(kTorchrun, {"--node-rank", "--rdzv-id", "--rdzv-conf"}, kStartedOnce),
    answered(kTorchrun, {"--rdzv-backend", "--rdzv-endpoint"}, kStartedOnce),
    answered(kTorchrun, {"--master-addr"}, kStartedOnce),
    answered(kTorchrun, {"--master-port"}, "hvdrun chooses a free port; -x MASTER_PORT=N sets one"),
    answered(kTorchrun, {"--log-dir", "--log-file"}, kRankFiles),
    answered(kTorchrun, {"--redirects", "--tee", "-r"}, kRankFiles),
    answered(kTorchrun, {"--monitor-interval", "--start-method", "--role"},
             "leave it out: hvdrun starts and watches the ranks itself"),

    same(kAccelerate, {"--num-processes"}, "-np"),
    same(kAccelerate, {"--num-machines"}, "--nnodes"),
    ignored(kAccelerate, {"--multi-gpu"}, "hvdrun starts one rank per GPU"),
    answered(kAccelerate, {"--machine-rank", "--main-process-ip"}, kStartedOnce),
    answered(kAccelerate, {"--main-process-port"},
             "hvdrun chooses a free port; -x MASTER_PORT=N sets one"),
    answered(kAccelerate, {"--mixed-precision"},
             "use --for accelerate with accelerate's config file"),
    same(kDeepspeed, {"--num-gpus"}, "--ranks-per-host"),
    same(kDeepspeed, {"--num-nodes"}, "--nnodes"),

    same(kOthers, {"--env"}, "-x"),
    answered(kOthers, {"--quiet", "-q"},
             "hvdrun's own lines are on stderr: 2> FILE keeps them apart"),
    answered(kOthers, {"--debug", "-d"}, "use --verbose"),

    for_batch(same(kSbatch, {"-e"}, "--error")),
    for_batch(same(kSbatch, {"-a"}, "--array")),
    for_batch(same(kSbatch, {"-d"}, "--dependency")),
    for_batch(answered(kSbatch, {"--gres"}, "use --gpus-per-node K")),
    for_batch(answered(kSbatch, {"--gpus", "-G"}, "use -np N: one rank per GPU")),
    for_batch(answered(kSbatch, {"--exclusive"}, "use --sbatch-arg=--exclusive")),
    for_batch(answered(kSbatch, {"--constraint", "-C"}, "use --sbatch-arg=--constraint=FEATURE")),
    for_batch(answered(kSbatch, {"-w", "--nodelist"}, "use --sbatch-arg=--nodelist=HOSTS")),
    for_batch(answered(kSbatch, {"--mail-user"}, "use --mail ADDRESS")),
    for_batch(answered(kSbatch, {"--mail-type"}, "use --mail ADDRESS:TYPE")),
    for_batch(answered(kSbatch, {"--parsable"}, "--submit prints only the job's id on stdout")),
    for_batch(answered(kSbatch, {"--export"},
                       "the job gets the caller's environment; -x NAME=VALUE sets a variable")),
};

}  // namespace

std::span<const ForeignOption> foreign_options() {
  return kForeignOptions;
}

const ForeignOption* find_foreign_option(std::string_view spelling, bool is_batch) {
  if (spelling.empty()) return nullptr;
  const ForeignOption* found = nullptr;
  for (const auto& option : kForeignOptions) {
    if (option.batch_only && !is_batch) continue;
    for (const auto known : option.spellings)
      if (known == spelling && (found == nullptr || option.batch_only)) found = &option;
  }
  return found;
}

std::string refusal_of(const ForeignOption& option, const std::string& named) {
  return named + " is an option of " + std::string(option.of) +
         " that hvdrun does not have: " + std::string(option.text);
}

}  // namespace hvdrun::cli
