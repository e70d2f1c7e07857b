#include "cli/option_table.hpp"

#include "cli/batch_options.hpp"
#include "cli/values.hpp"
#include "common/text.hpp"

#include <algorithm>

namespace hvdrun::cli {
namespace {

using Value = std::string_view;
using enum ValueKind;
using enum OptionGroup;

// Names of hosts; `nothing` is the word that takes back what a config file has set.
Result<void> store_names(Value value, Value nothing, std::vector<std::string>& names) {
  names.clear();
  return value == nothing ? Result<void>() : store(parse_host_names(value), names);
}

Result<void> apply_exit_timeout(JobSpec& job, Value value) {
  if (value == "none") {
    job.stop.exit_timeout.reset();
    return {};
  }
  return store(parse_duration(value), job.stop.exit_timeout);
}

// A later -x of the same name takes the place of an earlier one.
Result<void> apply_environment(JobSpec& job, Value value) {
  HVD_TRY(auto change, parse_environment_change(value));
  const auto at = std::find_if(job.environment.begin(), job.environment.end(),
                               [&](const auto& known) { return known.name == change.name; });
  if (at != job.environment.end()) {
    *at = std::move(change);
  } else {
    job.environment.push_back(std::move(change));
  }
  return {};
}

constexpr Option kOptions[] = {
    {"num-proc",
     {"-np", "--num-proc", "--np"},
     number,
     placement,
     "N",
     "one per slot",
     "number of ranks; a slot is a GPU, and without GPUs a task or a core",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.ranks); }},
    {"hosts",
     {"-H", "--hosts"},
     list,
     placement,
     "HOST[:SLOTS],...",
     "this machine",
     "hosts, and how many ranks each may have",
     [](JobSpec& job, Value v) {
       job.hostfile.clear();
       return store(parse_hosts(v), job.hosts);
     }},
    {"hostfile",
     {"--hostfile", "-hostfile"},
     word,
     placement,
     "FILE",
     "",
     "take the hosts from FILE, one a line: n1 slots=4, n2:4 or n[3-8]",
     [](JobSpec& job, Value v) {
       job.hosts.clear();
       return store(parse_path(v), job.hostfile);
     }},
    {"include",
     {"--include"},
     list,
     placement,
     "HOST,...",
     "all",
     "of the hosts there are, use only these, such as n[1-4],n7",
     [](JobSpec& job, Value v) { return store_names(v, "all", job.include); }},
    {"exclude",
     {"--exclude"},
     list,
     placement,
     "HOST,...",
     "none",
     "of the hosts there are, do not use these",
     [](JobSpec& job, Value v) { return store_names(v, "none", job.exclude); }},
    {"nnodes",
     {"--nnodes"},
     number,
     placement,
     "N",
     "as many as needed",
     "use the first N hosts, each with an equal share of the ranks",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.nodes); }},
    {"ranks-per-host",
     {"--ranks-per-host"},
     number,
     placement,
     "K",
     "one per slot",
     "number of ranks on each host; 1 is for programs that drive all GPUs themselves",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.ranks_per_host); }},
    {"map-by",
     {"--map-by"},
     word,
     placement,
     "slot|node",
     "slot",
     "fill a host, then go to the next; or deal the ranks out, one to each host in turn",
     [](JobSpec& job, Value v) {
       return store(parse_choice<MapBy>(v, {{"slot", MapBy::slot}, {"node", MapBy::node}}),
                    job.map_by);
     }},
    {"oversubscribe",
     {"--oversubscribe"},
     flag,
     placement,
     "",
     "false",
     "allow more ranks than slots, so that ranks share GPUs",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.oversubscribe); }},
    {"bind-to",
     {"--bind-to"},
     word,
     placement,
     "core|numa|none|auto",
     "auto",
     "bind each rank to cores of its own, to a NUMA node, or not at all",
     [](JobSpec& job, Value v) {
       return store(parse_choice<BindTo>(v, {{"core", BindTo::core},
                                             {"numa", BindTo::numa},
                                             {"none", BindTo::none},
                                             {"auto", BindTo::automatic}}),
                    job.bind_to);
     }},
    {"cpus-per-rank",
     {"--cpus-per-rank"},
     number,
     placement,
     "K",
     "as many as fit",
     "number of cores for each rank",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.cpus_per_rank); }},
    {"gpu-bind",
     {"--gpu-bind"},
     word,
     placement,
     "all|single|none",
     "all",
     "a rank sees all GPUs of its host in order, only its own, or what the caller sees",
     [](JobSpec& job, Value v) {
       return store(
           parse_choice<GpuBind>(
               v, {{"all", GpuBind::all}, {"single", GpuBind::single}, {"none", GpuBind::none}}),
           job.gpu_bind);
     }},
    {"report-bindings",
     {"--report-bindings"},
     flag,
     placement,
     "",
     "false",
     "print the GPU and the cores of each rank, then run",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.report_bindings); }},
    {"dry-run",
     {"--dry-run"},
     flag,
     placement,
     "",
     "false",
     "print which rank would go where, and start nothing",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.dry_run); }},
    {"json",
     {"--json"},
     flag,
     placement,
     "",
     "false",
     "print what --dry-run prints as JSON",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.json); }},

    {"x",
     {"-x"},
     environment,
     start,
     "NAME[=VALUE]",
     "",
     "set NAME in the environment of the ranks, or pass it on; may be repeated",
     apply_environment},
    {"for",
     {"--for"},
     list,
     start,
     "FRAMEWORK,...",
     "",
     "set the variables that accelerate, jax, mlx, tensorflow or torchrun need beside torch's; may "
     "be repeated",
     [](JobSpec& job, Value v) { return add_frameworks(v, job.frameworks); }},
    {"print-env",
     {"--print-env"},
     flag,
     start,
     "",
     "false",
     "print what rank 0, or that of --only-rank, gets in its environment and why, and start "
     "nothing",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.print_env); }},
    {"horovod",
     {"--horovod"},
     flag,
     start,
     "",
     "false",
     "run a Python program that was written for Horovod: import horovod gives it hvd",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.horovod); }},
    {"pmix",
     {"--pmix"},
     word,
     start,
     "auto|on|off",
     "auto",
     "serve PMIx to the ranks; auto: where libpmix is installed",
     [](JobSpec& job, Value v) {
       return store(
           parse_choice<PmixMode>(
               v, {{"auto", PmixMode::automatic}, {"on", PmixMode::on}, {"off", PmixMode::off}}),
           job.pmix);
     }},
    {"start-timeout",
     {"--start-timeout"},
     duration,
     start,
     "TIME",
     "30",
     "give up when the job has not started after this time",
     [](JobSpec& job, Value v) { return store(parse_time_limit(v), job.start_timeout); }},
    {"max-restarts",
     {"--max-restarts"},
     number,
     start,
     "R",
     "0",
     "after a failure start the whole job again on the hosts that are left, R times at most",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 0), job.max_restarts); }},
    {"max-requeues",
     {"--max-requeues"},
     number,
     start,
     "R",
     "0",
     "in a SLURM job: when the program stops in good order before its end, on a signal or because "
     "time is nearly up, put the job back into the queue, R times at most",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 0), job.max_requeues); }},
    {"stdin",
     {"--stdin"},
     word_number,
     start,
     "none|all|RANK",
     "0",
     "which rank reads the standard input of hvdrun",
     [](JobSpec& job, Value v) { return store(parse_input(v), job.input); }},

    {"ssh-port",
     {"-p", "--ssh-port"},
     number,
     reach,
     "PORT",
     "ssh's own",
     "port of the hosts' ssh servers, where a host has none of its own",
     [](JobSpec& job, Value v) { return store(parse_port(v), job.remote.ssh_port); }},
    {"ssh-identity-file",
     {"-i", "--ssh-identity-file"},
     word,
     reach,
     "FILE",
     "ssh's own",
     "private key to log in with",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.remote.ssh_identity); }},
    {"ssh-accept-new",
     {"--ssh-accept-new"},
     flag,
     reach,
     "",
     "false",
     "take the key of a host that is not known yet; never one that has changed",
     [](JobSpec& job, Value v) {
       return store(Result<bool>(v == "true"), job.remote.ssh_accept_new);
     }},
    {"ssh-client",
     {"--ssh-client"},
     word,
     reach,
     "auto|libssh|openssh",
     "auto",
     "who logs in: libssh inside hvdrun, the system's ssh, or the first and else the second",
     [](JobSpec& job, Value v) {
       return store(parse_choice<SshClient>(v, {{"auto", SshClient::automatic},
                                                {"libssh", SshClient::libssh},
                                                {"openssh", SshClient::openssh}}),
                    job.remote.ssh_client);
     }},
    {"ssh-program",
     {"--ssh-program"},
     word,
     reach,
     "PROGRAM",
     "ssh",
     "what to start in place of ssh, and of libssh; it gets ssh's options",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.remote.ssh_program); }},
    {"network-interface",
     {"--network-interface", "--network-interfaces"},
     word,
     reach,
     "NAME,...",
     "the one that leads to the hosts",
     "network for the agents of a SLURM job, and for the ranks: libhvd, NCCL, Gloo, Open MPI",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.remote.network_interface); }},
    {"agent-path",
     {"--agent-path"},
     word,
     reach,
     "FILE",
     "the same as here",
     "where hvdrun is on the other hosts",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.remote.agent_path); }},
    {"host-timeout",
     {"--host-timeout"},
     duration,
     reach,
     "TIME",
     "5",
     "a host that does not answer for this long is lost, and the job is stopped",
     [](JobSpec& job, Value v) { return store(parse_time_limit(v), job.remote.host_timeout); }},

    {"fusion-threshold-mb",
     {"--fusion-threshold-mb"},
     decimal,
     collectives,
     "MB",
     "0.0625",
     "small tensors that libhvd carries out together, at most so many megabytes of them; 0: none",
     [](JobSpec& job, Value v) { return store(parse_megabytes(v), job.collectives.fusion_bytes); }},
    {"cache-capacity",
     {"--cache-capacity"},
     number,
     collectives,
     "N",
     "4096",
     "names of tensors that libhvd remembers from step to step; 0: none",
     [](JobSpec& job, Value v) {
       return store(parse_whole(v, 0), job.collectives.cache_capacity);
     }},
    {"stall-check",
     {"--stall-check"},
     flag,
     collectives,
     "",
     "true",
     "say which ranks others wait for in a collective; --no-stall-check: do not",
     [](JobSpec& job, Value v) {
       return store(Result<bool>(v == "true"), job.collectives.stall_check);
     }},
    {"stall-check-warning-time-seconds",
     {"--stall-check-warning-time-seconds"},
     duration,
     collectives,
     "TIME",
     "60",
     "say it after so long; 0: do not",
     [](JobSpec& job, Value v) { return store(parse_duration(v), job.collectives.stall_warning); }},
    {"stall-check-shutdown-time-seconds",
     {"--stall-check-shutdown-time-seconds"},
     duration,
     collectives,
     "TIME",
     "0",
     "a collective that has waited so long fails on all ranks; 0: it waits for ever",
     [](JobSpec& job, Value v) {
       return store(parse_duration(v), job.collectives.stall_shutdown);
     }},

    {"label",
     {"--label"},
     word,
     output,
     "none|rank|rank@host|TEMPLATE",
     "rank if N > 1",
     "what stands before each line of output; a TEMPLATE is text with {rank}, {host}, "
     "{local_rank}, {size}, {time} or {stream}",
     [](JobSpec& job, Value v) { return store(parse_label(v), job.output.label); }},
    {"prefix-output-with-timestamp",
     {"-prefix-timestamp", "--prefix-output-with-timestamp"},
     flag,
     output,
     "",
     "false",
     "put the time in ms at which it was printed before each line",
     [](JobSpec& job, Value v) { return store(Result<bool>(v == "true"), job.output.timestamps); }},
    {"color",
     {"--color"},
     word,
     output,
     "auto|always|never",
     "auto",
     "colour the labels by rank; auto: on a terminal",
     [](JobSpec& job, Value v) {
       return store(parse_choice<ColorMode>(v, {{"auto", ColorMode::automatic},
                                                {"always", ColorMode::always},
                                                {"never", ColorMode::never}}),
                    job.output.color);
     }},
    {"only-rank",
     {"--only-rank"},
     list,
     output,
     "RANKS",
     "all",
     "show only the output of these ranks, such as 0,4-7",
     [](JobSpec& job, Value v) {
       if (v == "all") {
         job.output.only_ranks.reset();
         return Result<void>();
       }
       auto ranks = RankSet::parse(v);
       if (!ranks)
         return Result<void>(fail("needs ranks such as 0,4-7, not " + quote(v), kExitUsage));
       return store(std::move(ranks), job.output.only_ranks);
     }},
    {"output-filename",
     {"--output-filename"},
     word,
     output,
     "DIR",
     "",
     "write the output of each rank to DIR/rank.0007/stdout and stderr, too",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.output.directory); }},
    {"on-output-error",
     {"--on-output-error"},
     word,
     output,
     "continue|stop",
     "continue",
     "what to do with the job when its output cannot be written (a full disk)",
     [](JobSpec& job, Value v) {
       return store(parse_choice<OnOutputError>(
                        v, {{"continue", OnOutputError::go_on}, {"stop", OnOutputError::stop}}),
                    job.output.on_error);
     }},
    {"report",
     {"--report"},
     word,
     output,
     "FILE.json",
     "",
     "write how each rank ended, its times and its memory to FILE.json",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.report_file); }},
    {"timeline-filename",
     {"--timeline-filename"},
     word,
     output,
     "FILE.json",
     "",
     "write what all ranks of a program with libhvd did, and when, to FILE.json",
     [](JobSpec& job, Value v) { return store(parse_path(v), job.timeline_file); }},

    {"kill-signal",
     {"--kill-signal"},
     word_number,
     stopping,
     "NAME|NUMBER",
     "TERM",
     "signal that stops the ranks when one has failed, or on Ctrl-C",
     [](JobSpec& job, Value v) { return store(parse_signal(v), job.stop.signal); }},
    {"grace",
     {"--grace"},
     duration,
     stopping,
     "TIME",
     "5",
     "time between that signal and KILL",
     [](JobSpec& job, Value v) { return store(parse_duration(v), job.stop.grace); }},
    {"exit-timeout",
     {"--exit-timeout"},
     duration,
     stopping,
     "TIME|none",
     "none",
     "stop the job when ranks still run this long after the first succeeded",
     apply_exit_timeout},

    {"verbose",
     {"--verbose"},
     count,
     information,
     "",
     "0",
     "say more about what hvdrun does; may be repeated",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 0), job.verbosity); }},
    {"config-file",
     {"--config-file"},
     config_file,
     information,
     "FILE",
     "",
     "take settings from a JSON file, or horovodrun's YAML; the command line overrides them"},
    {"explain",
     {"--explain"},
     action,
     information,
     "",
     "",
     "print each setting and where it comes from, and start nothing"},
    {"check-build",
     {"-cb", "--check-build"},
     action,
     information,
     "",
     "",
     "print what this hvdrun can do, and which libraries it finds"},
    {"version", {"-v", "--version"}, action, information, "", "", "print the version"},
    {"help", {"-h", "--help"}, action, information, "", "", "print this text"},
};

}  // namespace

std::span<const Option> option_table() {
  return kOptions;
}

std::string_view group_title(OptionGroup group) {
  switch (group) {
    case placement:
      return "Ranks, hosts and binding";
    case start:
      return "Start, environment and input";
    case reach:
      return "Other hosts";
    case collectives:
      return "Collectives (libhvd)";
    case output:
      return "Output";
    case stopping:
      return "Stopping";
    case information:
      return "Information and settings";
    case resources:
      return "What to ask SLURM for";
    case script:
      return "The script";
    case submission:
      return "What to do with it";
  }
  return {};
}

const OptionSet& run_options() {
  static const OptionSet options{kOptions};
  return options;
}

const OptionSet& batch_options() {
  static const OptionSet options{batch_option_table(), kOptions};
  return options;
}

const OptionSet& all_options() {
  return batch_options();
}

const Option* find_option_by_spelling(std::string_view spelling, const OptionSet& options) {
  if (spelling.empty()) return nullptr;
  for (const auto table : options)
    for (const auto& option : table)
      for (const auto known : option.spellings)
        if (known == spelling) return &option;
  return nullptr;
}

const Option* find_option_by_name(std::string_view name, const OptionSet& options) {
  for (const auto table : options)
    for (const auto& option : table)
      if (option.name == name) return &option;
  return nullptr;
}

bool takes_value(const Option& option) {
  return !option.value_name.empty();
}

bool is_setting(const Option& option) {
  return option.apply != nullptr || option.apply_batch != nullptr;
}

}  // namespace hvdrun::cli
