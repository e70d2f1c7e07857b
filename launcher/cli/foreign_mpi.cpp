#include "cli/foreign_tables.hpp"

namespace hvdrun::cli {
namespace {

constexpr std::string_view kMpirun = "mpirun";
constexpr std::string_view kHydra = "mpiexec";

constexpr std::string_view kSetVariable = "use -x NAME=VALUE";
constexpr std::string_view kMca =
    "use -x OMPI_MCA_NAME=VALUE for --mca NAME VALUE: -x OMPI_MCA_btl=tcp,self";
constexpr std::string_view kDaemons =
    "leave it out: it is about the launcher's own daemons, which hvdrun does not have";
constexpr std::string_view kRuns = "leave it out: hvdrun starts one job, and ends with it";
constexpr std::string_view kDebugger = "use --wrap \"gdb --args\"";
constexpr std::string_view kFailures =
    "hvdrun stops the other ranks when one fails; --max-restarts R starts the job again";
constexpr std::string_view kStacks = "Ctrl-\\ shows what each rank does; timeout SECONDS hvdrun …";

constexpr ForeignOption kMpiOptions[] = {
    same(kMpirun, {"--n"}, "-np"),
    same(kMpirun, {"--host"}, "-H"),
    same(kMpirun, {"--machinefile", "--default-hostfile", "-f"}, "--hostfile"),
    same(kMpirun, {"-ppn", "--perhost", "--npernode"}, "--ranks-per-host"),
    flag(kMpirun, {"--pernode"}, "--ranks-per-host=1"),
    answered(kMpirun, {"--npersocket"},
             "use --ranks-per-host K; --bind-to numa gives each rank a NUMA node"),
    answered(kMpirun, {"--ppr"}, "use --ranks-per-host K for K:node"),
    same(kMpirun, {"--cpus-per-proc"}, "--cpus-per-rank"),
    flag(kMpirun, {"--bynode"}, "--map-by=node"),
    flag(kMpirun, {"--byslot"}, "--map-by=slot"),
    answered(kMpirun, {"--bycore", "--rank-by"}, "use --map-by slot or --map-by node"),
    flag(kMpirun, {"--bind-to-core"}, "--bind-to=core"),
    flag(kMpirun, {"--bind-to-socket"}, "--bind-to=socket"),
    answered(kMpirun, {"--cpu-set", "--cpu-list"},
             "use --bind-to core and --cpus-per-rank K; hvdrun chooses the cores"),
    ignored(kMpirun, {"--nooversubscribe"}, "it is the default: --oversubscribe allows more ranks"),
    answered(kMpirun, {"--nolocal", "-skip-launch-node"}, "use --exclude HOST"),
    naming_hosts(answered(kMpirun, {"--use-hwthread-cpus"},
                          "-H HOST:SLOTS says how many ranks a host may have")),
    naming_hosts(answered(kMpirun, {"--rankfile", "-rf", "--rf"},
                          "use -H n1:2,n2:4, which gives each host its number of ranks, in order")),
    naming_hosts(
        answered(kMpirun, {"--add-host", "--add-hostfile"}, "use -H HOST,HOST or --hostfile FILE")),

    flag(kMpirun,
         {"--display-map", "--display-devel-map", "--display-diffable-map", "--print-rank-map"},
         "--report-bindings=true"),
    flag(kMpirun, {"--do-not-launch"}, "--dry-run=true"),
    answered(kMpirun, {"--display", "--display-allocation", "--display-devel-allocation"},
             "use --dry-run, or --report-bindings, which also starts the ranks"),
    answered(kMpirun, {"--display-topo", "--display-comm", "--display-comm-finalize"},
             "hvdrun --dry-run prints the hosts, their GPUs and cores"),
    ignored(kMpirun, {"--tag-output", "--prepend-rank", "--tag-detailed", "--tag-fullname"},
            kLabels),
    flag(kMpirun, {"--timestamp-output"}, "--prefix-output-with-timestamp=true"),
    answered(kMpirun, {"--output-directory", "-outfile-pattern", "-errfile-pattern"}, kRankFiles),
    answered(kMpirun, {"-prepend-pattern"},
             "use --label TEMPLATE, text with {rank}, {host} or {time}"),
    answered(kMpirun, {"--merge-stderr-to-stdout"}, "use hvdrun … 2>&1"),
    answered(kMpirun, {"--xml", "--xml-file", "--print-all-exitcodes", "--output-proctable"},
             "use --report FILE.json, which says how each rank ended"),
    ignored_value(kMpirun, {"--stream-buffering"}, "lines are printed when they are complete"),
    ignored(kMpirun, {"--show-progress", "--no-ready-msg"}, ""),
    answered(kMpirun, {"--xterm"}, "use --tty RANK, which gives hvdrun's terminal to a rank"),

    same(kMpirun, {"-wd", "--wd", "-wdir"}, "--wdir"),
    answered(kMpirun, {"--set-cwd-to-session-dir"}, "use --chdir FOLDER"),
    answered(kMpirun, {"--path"}, "use -x PATH=FOLDER:$PATH"),
    answered(kMpirun, {"--prefix", "--app-prefix", "--pmix-prefix", "--app-pmix-prefix"},
             "ranks find Open MPI as any program does: -x LD_LIBRARY_PATH=FOLDER/lib"),
    ignored(kMpirun, {"--noprefix", "--no-app-prefix"}, ""),
    answered(kMpirun, {"--preload-files", "--preload-binary"}, kCopies),
    answered(kMpirun, {"-s"},
             "hvdrun copies no files; SLURM's -s is --sbatch-arg=--oversubscribe of hvdrun sbatch"),
    answered(kMpirun, {"--mca", "--gmca", "--omca", "--gomca", "--am", "--amca", "--tune"}, kMca),
    answered(kMpirun, {"--prtemca", "--gprtemca", "--pmixmca", "--gpmixmca"},
             "leave it out: it sets up a daemon or a PMIx server that hvdrun does not have"),
    answered(
        kMpirun, {"--append-env", "--prepend-env", "--unset-env", "--fwd-environment"},
        "use -x NAME=VALUE; the ranks get the caller's environment, which env -u NAME changes"),
    ignored(kMpirun, {"--allow-run-as-root"}, ""),

    answered(kMpirun, {"--timeout"}, kTimeout),
    answered(kMpirun, {"--spawn-timeout"}, "use --start-timeout TIME"),
    answered(kMpirun, {"--get-stack-traces", "--report-state-on-timeout"}, kStacks),
    answered(kMpirun, {"--debug-devel", "--debug-daemons", "--debug-daemons-file"}, kVerbose),
    answered(kMpirun, {"--leave-session-attached", "--report-events"}, kVerbose),
    answered(kMpirun, {"--debugger", "--tv", "--stop-on-exec", "--stop-in-init", "--stop-in-app"},
             kDebugger),
    answered(kMpirun, {"--app", "-configfile"}, kSeveralPrograms),
    answered(kMpirun, {"--index-argv-by-rank"}, "let the program choose by $HVD_RANK"),
    answered(kMpirun, {"--launch-agent"}, "use --agent-path FILE"),
    answered(kMpirun, {"--report-pid"}, "use the shell's $!: hvdrun … & echo $!"),
    answered(kMpirun, {"--report-uri", "--report-child-jobs-separately"}, kRuns),
    answered(kMpirun,
             {"--personality", "--dvm", "--dvm-uri", "--hnp", "--ompi-server", "--novm",
              "--max-vm-size"},
             kDaemons),
    answered(kMpirun,
             {"--fwd-mpirun-port", "--enable-instant-on-support", "--use-regexp",
              "--do-not-resolve", "--cartofile", "-cf", "--daemonize", "--set-sid"},
             kDaemons),
    answered(
        kMpirun,
        {"--system-server", "--system-server-first", "--system-server-only", "--do-not-connect",
         "--wait-to-connect", "--num-connect-retries", "--keepalive", "--exec-agent"},
        kDaemons),
    answered(kMpirun,
             {"--continuous", "--enable-recovery", "--with-ft", "--rtos", "--runtime-options"},
             kFailures),
    ignored(kMpirun, {"--disable-recovery"}, "hvdrun stops the other ranks when one fails"),
    answered(kMpirun, {"--forward-signals"}, "hvdrun passes signals on, see SIGNALS in hvdrun(1)"),
    answered(kMpirun, {"--gpu-support", "--memory-alloc-kinds", "--initial-errhandler", "--pset"},
             kDaemons),

    answered(kHydra, {"-genv", "-env", "-envlist"}, kSetVariable),
    answered(kHydra, {"-genvlist", "-genvall", "-envall"},
             "the ranks get the caller's environment"),
    answered(kHydra, {"-genvnone", "-envnone"},
             "the ranks get the caller's environment: env -i hvdrun … empties it"),
    ignored_value(kHydra, {"-launcher", "--launcher", "-bootstrap"},
                  "hvdrun reaches hosts through ssh, and those of a SLURM job through srun"),
    answered(kHydra, {"-launcher-exec", "-bootstrap-exec"}, "use --ssh-program PROGRAM"),
    same(kHydra, {"-iface"}, "--network-interface"),
    answered(kHydra, {"-info"}, "use hvdrun --check-build"),
    answered(kHydra, {"-membind"}, "use --bind-to numa, or numactl before the program"),
    answered(kHydra, {"-gpus-per-proc"},
             "each rank has one GPU; --gpu-bind single hides the others"),
    answered(kHydra, {"-disable-auto-cleanup"}, kFailures),
    answered(kHydra,
             {"-enable-x", "-disable-x", "-rmk", "-topolib", "-demux", "-nameserver",
              "-disable-hostname-propagation", "-order-nodes"},
             kDaemons),
    answered(kHydra, {"-gdb"}, "use --wrap \"gdb --args\" or --tty RANK"),
    flag(kHydra, {"-rr"}, "--map-by=node"),
    answered(kHydra, {"-grr"}, "use --ranks-per-host K"),
    answered(kHydra, {"-trace", "-check-mpi"},
             "start the tool with the program: --wrap, or -x LD_PRELOAD=LIBRARY"),
    answered(kHydra, {"-umask"}, "use sh -c 'umask 022; exec PROGRAM'"),
    answered(kHydra, {"-profile", "-localhost", "-usize", "-pmi-port"}, kDaemons),
};

}  // namespace

std::span<const ForeignOption> options_of_mpi() {
  return kMpiOptions;
}

}  // namespace hvdrun::cli
