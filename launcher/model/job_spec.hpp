// What the user asked hvdrun to do: a plain value, made from argv and the config files by cli/.
// What is asked of SLURM is in BatchSpec.
#pragma once

#include "model/device_choice.hpp"
#include "model/host_request.hpp"
#include "model/job_part.hpp"
#include "model/rank_set.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

enum class BindTo { automatic, core, numa, socket, none };
enum class GpuBind { all, single, none };
enum class MapBy {
  slot,  // consecutive ranks on one host: fill a host, then the next
  node,  // consecutive ranks on different hosts: one on each, then the second on each
};
enum class SshClient {
  automatic,  // libssh, or the system's ssh if libssh cannot be used
  libssh,
  openssh,
};
enum class PmixMode {
  automatic,  // a PMIx server if all hosts have libpmix
  on,         // a PMIx server; an error if libpmix is not installed
  off,        // no PMIx server
};

// Frameworks whose variables hvdrun sets only on request (--for), because they change what a
// program does.
enum class Framework { accelerate, jax, mlx, tensorflow, torchrun };

// One -x. NAME alone passes on the caller's value, NAME=VALUE sets it.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;
};

enum class ColorMode { automatic, always, never };
// Whether equal lines of several ranks are shown once. Automatic: they are not.
// in_large_log: in a file that has stdout and stderr, of a job with many ranks.
enum class FoldLines { automatic, in_large_log, on, off };
// How the training's progress is shown.
enum class ProgressMode {
  automatic,  // a status line, if stderr is a terminal where one can be drawn
  always,     // a status line, also with NO_COLOR and where stdout is a pipe; else as `log`
  never,
  log,  // a plain line every minute
};
// What hvdrun does on a host of a SLURM cluster that runs none of its jobs, without an allocation.
enum class LoginNode { note, allow, refuse };
enum class OnOutputError { keep_running, stop };

struct OutputSpec {
  // "none", "rank", "rank@host", or a template with {rank}, {host}, {local_rank}, {size}, {time},
  // {stream}. Empty: "rank" if the job has more than one rank, else "none".
  std::string label;
  bool timestamps = false;  // prefix every line with the time it was read from the rank, in ms
  ColorMode color = ColorMode::automatic;
  FoldLines fold = FoldLines::automatic;
  ProgressMode progress = ProgressMode::automatic;
  std::filesystem::path directory;    // --output-filename; empty: no files
  JobPart part;                       // a later one appends to the files of earlier ones
  std::optional<RankSet> only_ranks;  // --only-rank: what the terminal shows
  OnOutputError on_error = OnOutputError::keep_running;
  // The rank that has hvdrun's terminal as its own, with the keys: --tty, or the only rank of a job
  // (settle_terminal); nullopt: none.
  std::optional<int> terminal_rank;
};

struct InputSpec {
  enum class To { none, all, rank };
  To to = To::rank;
  int rank = 0;
};

// --metrics: where the job's numbers are for Prometheus.
struct MetricsSpec {
  std::filesystem::path file;         // empty: in none
  std::optional<std::uint16_t> port;  // of 127.0.0.1; 0: a free one
};

struct StopSpec {
  // --kill-signal; nullopt: SIGTERM, and on Ctrl-C SIGINT first.
  std::optional<int> signal;
  // --grace; nullopt: kUsualGrace, but what SLURM gives (slurm/stop_time.hpp) for a SIGTERM there.
  std::optional<std::chrono::milliseconds> grace;
  std::optional<std::chrono::milliseconds> exit_timeout;   // --exit-timeout; nullopt: wait for ever
  std::optional<std::chrono::milliseconds> quiet_timeout;  // --quiet-timeout; the same

  static constexpr std::chrono::milliseconds kUsualGrace{5000};
  std::chrono::milliseconds grace_period() const { return grace.value_or(kUsualGrace); }
};

// How other hosts are reached.
struct RemoteSpec {
  SshClient ssh_client = SshClient::automatic;
  std::string ssh_program = "ssh";
  std::optional<int> ssh_port;         // of hosts that have no port of their own
  std::filesystem::path ssh_identity;  // a private key's file; empty: ssh's own choice
  bool ssh_accept_new = false;         // accept the key of an unknown host
  std::string network_interface;  // names: "ib0,eth0"; empty: the one with the route to the hosts
  std::filesystem::path agent_path;   // hvdrun on the other hosts; empty: the same path as here
  std::vector<DeviceChoice> devices;  // what CUDA_VISIBLE_DEVICES and its kind choose there
  // A host that sends nothing for this long is lost.
  std::chrono::milliseconds host_timeout{5000};
};

// How libhvd carries out collectives. A value that is not set is left to the ranks' environment.
struct CollectiveSpec {
  std::optional<std::int64_t> fusion_bytes;  // 0: no fusion
  std::optional<int> cache_capacity;         // names of tensors; 0: no cache
  std::optional<bool> autotune;
  std::filesystem::path autotune_log;  // empty: none
  std::optional<bool> stall_check;
  std::optional<std::chrono::milliseconds> stall_warning;   // 0: no warning
  std::optional<std::chrono::milliseconds> stall_shutdown;  // 0: never
};

// A job that continues when ranks are lost.
struct ElasticSpec {
  // --min-np: as long as so many ranks are left; nullopt: the job ends when one is lost.
  std::optional<int> min_ranks;
  // --reset-timeout: a rank that the others wait for meanwhile is ended after this time.
  std::chrono::milliseconds reset_timeout{120'000};
  std::optional<int> max_ranks;  // --max-np
  int spares = 0;                // --spares: processes that wait for a rank's place
  // --replace: a new process is started in the place of a lost one. Not set: with --max-np and
  // --spares; settled before the job begins.
  std::optional<bool> replace;
  bool replaces = false;
  std::optional<int> reset_limit;  // --reset-limit: how many losses are repaired
  // --elastic-timeout: how long a job with too few ranks waits for new ones.
  std::chrono::milliseconds elastic_timeout{600'000};
};

// --wrap: a command of the shell that starts the program.
struct WrapSpec {
  std::string command;           // empty: none
  std::optional<RankSet> ranks;  // that are started by it; nullopt: all
};

struct JobSpec {
  std::optional<int> ranks;          // -np; nullopt: one per slot
  std::vector<HostRequest> hosts;    // -H; empty: not given
  std::filesystem::path hostfile;    // --hostfile; empty: not given. At most one of the two is set.
  bool has_scheduler = false;        // a scheduler's job has the hosts
  bool starts_torchrun = false;      // the program is torchrun, once on each host
  std::vector<std::string> include;  // --include: use only these hosts; empty: all
  std::vector<std::string> exclude;  // --exclude: do not use these hosts
  std::optional<int> nodes;          // --nnodes: use this many hosts, the first ones
  std::optional<int> ranks_per_host;
  MapBy map_by = MapBy::slot;
  bool oversubscribe = false;
  LoginNode login_node = LoginNode::note;

  BindTo bind_to = BindTo::automatic;
  std::optional<int> cpus_per_rank;
  GpuBind gpu_bind = GpuBind::all;

  std::vector<std::string> typed;    // the words before the program: hvdrun and its options
  std::vector<std::string> command;  // as typed; command[0] names the program
  std::filesystem::path program;     // the file to execute
  WrapSpec wrap;
  std::filesystem::path working_directory;
  std::vector<EnvironmentChange> environment;     // -x in order
  std::set<Framework> frameworks;                 // --for
  std::map<std::string, std::string> accelerate;  // variables from accelerate's config file
  bool horovod = false;                           // --horovod
  std::filesystem::path horovod_folder;           // has the module horovod; first on PYTHONPATH
  std::filesystem::path hvd_folder;  // has the package hvd; last on PYTHONPATH; empty: pip's

  PmixMode pmix = PmixMode::automatic;
  StopSpec stop;
  RemoteSpec remote;
  CollectiveSpec collectives;
  ElasticSpec elastic;
  int max_restarts = 0;  // how often a failed job is started again
  int max_requeues = 0;  // how often a job that had to stop goes back into SLURM's queue
  std::chrono::milliseconds start_timeout{30000};
  OutputSpec output;
  InputSpec input;
  MetricsSpec metrics;
  std::filesystem::path report_file;    // --report; empty: no report
  std::filesystem::path timeline_file;  // --timeline-filename; empty: no timeline

  int verbosity = 0;
  bool report_bindings = false;
  bool dry_run = false;
  bool print_env = false;
  bool json = false;
};

}  // namespace hvdrun
