#include "cli/foreign_tables.hpp"

namespace hvdrun::cli {
namespace {

constexpr std::string_view kTorchrun = "torchrun";
constexpr std::string_view kAccelerate = "accelerate";
constexpr std::string_view kDeepspeed = "deepspeed";
constexpr std::string_view kOthers = "other launchers";

constexpr std::string_view kItself = "leave it out: hvdrun starts and watches the ranks itself";
constexpr std::string_view kConfigured = "use --for accelerate with accelerate's config file";
constexpr std::string_view kNoTpu = "hvdrun starts no programs on TPUs";
constexpr std::string_view kBackground =
    "use hvdrun … &, nohup or tmux; hvdrun sbatch for a SLURM job";

constexpr ForeignOption module_flag(std::string_view of, Spellings spellings) {
  return {spellings, of, ForeignOption::Kind::module, false, ""};
}

constexpr ForeignOption kPythonOptions[] = {
    same(kTorchrun, {"--nproc-per-node"}, "--ranks-per-host"),
    module_flag(kTorchrun, {"-m", "--module"}),
    naming_hosts(ignored(kTorchrun, {"--standalone"},
                         "this machine is the default without -H and --hostfile")),
    ignored(kTorchrun, {"--no-python", "--run-path"}, "hvdrun starts any program"),
    ignored(kTorchrun, {"--use-env"}, "LOCAL_RANK is in the ranks' environment"),
    naming_hosts(answered(kTorchrun, {"--node-rank", "--rdzv-*", "--master-addr"}, kStartedOnce)),
    answered(kTorchrun, {"--local-addr"}, "use --network-interface NAME"),
    answered(kTorchrun, {"--master-port"}, kFreePort),
    answered(kTorchrun, {"--log-dir", "--log-file", "--redirects", "--tee", "--logs-specs"},
             kRankFiles),
    answered(kTorchrun, {"-r"},
             "use --output-filename DIR, a file for each rank; for SLURM's --relative: --include "
             "HOST,…"),
    answered(kTorchrun, {"--local-ranks-filter"}, "use --only-rank RANKS"),
    answered(kTorchrun, {"--duplicate-stdout-filters", "--duplicate-stderr-filters"}, kRankFiles),
    answered(kTorchrun, {"--monitor-interval", "--start-method", "--role", "--event-log-handler"},
             kItself),
    answered(kTorchrun, {"--signals-to-handle"}, "use --kill-signal NAME"),
    answered(kTorchrun, {"--shutdown-timeout"}, "use --grace TIME"),
    answered(kTorchrun, {"--numa-binding"}, "use --bind-to numa"),
    answered(kTorchrun, {"--virtual-local-rank"}, "use --gpu-bind single"),

    same(kAccelerate, {"--num-processes"}, "-np"),
    same(kAccelerate, {"--num-machines"}, "--nnodes"),
    same(kAccelerate, {"--mpirun-hostfile"}, "--hostfile"),
    ignored(kAccelerate, {"--multi-gpu", "--same-network"}, "hvdrun starts one rank per GPU"),
    naming_hosts(answered(kAccelerate, {"--machine-rank", "--main-process-ip"}, kStartedOnce)),
    answered(kAccelerate, {"--main-process-port"}, kFreePort),
    answered(kAccelerate, {"--cpu"},
             "use -x ACCELERATE_USE_CPU=true -x CUDA_VISIBLE_DEVICES= for ranks without GPUs"),
    answered(kAccelerate, {"--gpu-ids", "--devices"},
             "use CUDA_VISIBLE_DEVICES=0,1 hvdrun …, which chooses the GPUs"),
    answered(kAccelerate, {"--num-cpu-threads-per-process"}, "use -x OMP_NUM_THREADS=N"),
    answered(kAccelerate, {"--enable-cpu-affinity"}, "use --bind-to numa"),
    answered(kAccelerate, {"--mpirun-ccl"}, "use -x CCL_WORKER_COUNT=N"),
    answered(kAccelerate, {"--ipex", "--use-xpu"}, kConfigured),
    answered(kAccelerate,
             {"--mixed-precision", "--dynamo-*", "--use-deepspeed", "--use-fsdp",
              "--use-megatron-lm", "--use-parallelism-config", "--fsdp-*", "--megatron-lm-*"},
             kConfigured),
    answered(kAccelerate,
             {"--parallelism-config-*", "--fp8-*", "--deepspeed-*", "--zero3-*", "--zero-stage",
              "--offload-optimizer-*", "--offload-param-*", "--gradient-*"},
             kConfigured),
    answered(kAccelerate,
             {"--tpu*", "--no-tpu-cluster", "--vm", "--main-training-function", "--downcast-bf16"},
             kNoTpu),
    answered(kAccelerate, {"--aws-*"}, "hvdrun starts no jobs of SageMaker"),

    same(kDeepspeed, {"--num-gpus", "--num-accelerators"}, "--ranks-per-host"),
    same(kDeepspeed, {"--num-nodes"}, "--nnodes"),
    answered(kDeepspeed, {"--launcher-args"}, "use --ssh-program PROGRAM or ssh's own config file"),
    ignored(kDeepspeed, {"--no-local-rank"}, "hvdrun adds no arguments to the program's"),
    naming_hosts(answered(kDeepspeed, {"--no-ssh"}, kStartedOnce)),
    ignored(kDeepspeed, {"--no-ssh-check", "--force-multi"}, ""),
    answered(kDeepspeed, {"--save-pid"}, "use the shell's $!: hvdrun … & echo $!"),
    answered(kDeepspeed, {"--enable-each-rank-log"}, kRankFiles),
    answered(kDeepspeed, {"--autotuning"}, "start DeepSpeed's autotuner with its own launcher"),
    flag(kDeepspeed, {"--bind-cores-to-rank"}, "--bind-to=core"),
    answered(kDeepspeed, {"--bind-core-list"},
             "use --bind-to core and --cpus-per-rank K; hvdrun chooses the cores"),

    same(kOthers, {"--env"}, "-x"),
    answered(kOthers, {"-q"}, "2> FILE keeps hvdrun's own lines apart; SLURM's -q is for sbatch"),
    answered(kOthers, {"--quiet"}, kOwnLines),
    answered(kOthers, {"--debug"}, kVerbose),
    answered(
        kOthers, {"-d"},
        "use --cpus-per-rank K for a rank's cores (aprun), --verbose to look for faults; SLURM's "
        "-d is for hvdrun sbatch"),
    answered("aprun", {"-cc"}, "use --bind-to core, numa or none"),
    answered("jsrun", {"-a"}, "use -np N for all ranks, --ranks-per-host K for those of a host"),
    answered("jsrun", {"-g"}, "each rank has one GPU; CUDA_VISIBLE_DEVICES=0,1 hvdrun … chooses"),
    flag(kOthers, {"--no-label", "--no-labels"}, "--label=none"),
    answered(kOthers, {"--background", "--detach"}, kBackground),
    answered(kOthers, {"--time-limit", "--walltime"}, kTimeout),
    answered(kOthers, {"--log", "--logs"}, kRankFiles),
    same(kOthers, {"--nproc", "--ranks", "--world-size", "--workers", "-NP", "--NP", "-nP"}, "-np"),
    answered(kOthers, {"-j", "--jobs"}, "use -np N for the number of ranks"),
    same(kOthers, {"--cwd", "--workdir", "--working-dir"}, "--chdir"),
    answered(kOthers, {"--gpu"}, "use CUDA_VISIBLE_DEVICES=0,1 hvdrun …, which chooses the GPUs"),
    answered(kOthers, {"--cpus"}, "use -np N for the number of ranks, --cpus-per-rank K for cores"),
    answered(kOthers, {"--silent"}, kOwnLines),
    answered(kOthers, {"--interactive", "-it"},
             "use --tty RANK, which gives hvdrun's terminal to a rank"),
    ignored(kOthers, {"--yes"}, "hvdrun asks no questions"),
    flag(kOthers, {"-vv", "-vvv"}, "--verbose"),
    answered(kOthers, {"--deepspeed"}, "the program has it: put it after the program's name"),
};

}  // namespace

std::span<const ForeignOption> options_of_python() {
  return kPythonOptions;
}

}  // namespace hvdrun::cli
