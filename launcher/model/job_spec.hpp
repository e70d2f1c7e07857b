// What the user asked for: a plain value, made from argv and the config file by cli/.
#pragma once

#include "model/host_request.hpp"
#include "model/rank_set.hpp"
#include "slurm/script_template.hpp"

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

enum class BindTo { automatic, core, numa, none };
enum class GpuBind { all, single, none };
enum class MapBy {
  slot,  // neighbouring ranks on one host: fill a host, then the next
  node,  // neighbouring ranks on different hosts: one on each, then the second on each
};
enum class SshClient {
  automatic,  // libssh, and the system's ssh where that does not do
  libssh,
  openssh,
};
enum class PmixMode {
  automatic,  // a PMIx server where libpmix is installed
  on,         // an error where it is not
  off,        // none
};

// Frameworks whose variables change what a program does by being there (--for).
enum class Framework { accelerate, jax, mlx, tensorflow, torchrun };

// One -x: NAME alone passes the caller's value on, NAME=VALUE sets it.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;
};

enum class ColorMode { automatic, always, never };
enum class OnOutputError { go_on, stop };

struct OutputSpec {
  // "none", "rank", "rank@host", or a template with {rank}, {host}, {local_rank}, {size}, {time},
  // {stream}. Empty: "rank" when the job has more than one rank, else "none".
  std::string label;
  bool timestamps = false;  // prefix every line with the time it was read from the rank, in ms
  ColorMode color = ColorMode::automatic;
  std::filesystem::path directory;    // --output-filename; empty: none
  std::optional<RankSet> only_ranks;  // --only-rank: what the terminal shows
  OnOutputError on_error = OnOutputError::go_on;
};

struct InputSpec {
  enum class To { none, all, rank };
  To to = To::rank;
  int rank = 0;
};

struct StopSpec {
  int signal = SIGTERM;
  std::chrono::milliseconds grace{5000};
  std::optional<std::chrono::milliseconds> exit_timeout;  // --exit-timeout; none: wait for ever
};

// How other hosts are reached.
struct RemoteSpec {
  SshClient ssh_client = SshClient::automatic;
  std::string ssh_program = "ssh";
  std::optional<int> ssh_port;         // where a host has none of its own
  std::filesystem::path ssh_identity;  // a private key's file; empty: ssh's own choice
  bool ssh_accept_new = false;         // take the key of a host that is not known yet
  std::string network_interface;       // names: "ib0,eth0"; empty: the one that leads to the hosts
  std::filesystem::path agent_path;    // hvdrun over there; empty: where it is here
  std::chrono::milliseconds host_timeout{
      5000};  // a host that answers nothing for this long is lost
};

// How libhvd carries out collectives. What is not set is left to the ranks' environment.
struct CollectiveSpec {
  std::optional<std::int64_t> fusion_bytes;  // 0: none go together
  std::optional<int> cache_capacity;         // names; 0: no cache
  std::optional<bool> stall_check;
  std::optional<std::chrono::milliseconds> stall_warning;   // 0: none
  std::optional<std::chrono::milliseconds> stall_shutdown;  // 0: never
};

struct JobSpec {
  std::optional<int> ranks;          // -np; none: one per slot
  std::vector<HostRequest> hosts;    // -H; empty: none named
  std::filesystem::path hostfile;    // --hostfile; empty: none. At most one of the two is there.
  std::vector<std::string> include;  // --include: of the hosts only these; empty: all
  std::vector<std::string> exclude;  // --exclude: and not these
  std::optional<int> nodes;          // --nnodes: so many hosts, the first ones
  std::optional<int> ranks_per_host;
  MapBy map_by = MapBy::slot;
  bool oversubscribe = false;

  BindTo bind_to = BindTo::automatic;
  std::optional<int> cpus_per_rank;
  GpuBind gpu_bind = GpuBind::all;

  std::vector<std::string> command;  // as typed; command[0] is the program
  std::filesystem::path program;     // what will be executed
  std::filesystem::path working_directory;
  std::vector<EnvironmentChange> environment;     // -x in order
  std::set<Framework> frameworks;                 // --for
  std::map<std::string, std::string> accelerate;  // what accelerate config has chosen
  bool horovod = false;                           // --horovod, which puts on PYTHONPATH:
  std::filesystem::path horovod_folder;           // what has the module horovod, before all else
  std::filesystem::path hvd_folder;  // and what has the package hvd, behind; empty: pip's

  PmixMode pmix = PmixMode::automatic;
  StopSpec stop;
  RemoteSpec remote;
  CollectiveSpec collectives;
  int max_restarts = 0;  // how often a job that failed is started again
  int max_requeues = 0;  // how often one that had to stop goes back into SLURM's queue
  std::chrono::milliseconds start_timeout{30000};
  OutputSpec output;
  InputSpec input;
  std::filesystem::path report_file;    // --report; empty: none
  std::filesystem::path timeline_file;  // --timeline-filename; empty: none

  int verbosity = 0;
  bool report_bindings = false;
  bool dry_run = false;
  bool print_env = false;
  bool json = false;
};

// What the user asks SLURM for, with sbatch and salloc: a plain value, made from argv and the
// config files by cli/. What is asked of hvdrun itself is in JobSpec.

// An option that goes to sbatch and salloc as it is: --NAME=VALUE.
struct SlurmOption {
  std::string name;
  std::string value;
  bool is_own_idea = false;  // nobody asked for it
};

struct BatchSpec {
  std::optional<int> nodes;
  std::optional<int> gpus_per_node;           // that a node has; 0: ranks without GPUs
  std::optional<int> cpus_per_node;           // that a node has: the ranks share them
  std::vector<SlurmOption> slurm_options;     // each name once
  std::vector<std::string> sbatch_arguments;  // --sbatch-arg in order
  bool requeue = false;
  std::string comment;  // what the job runs, for people who list jobs

  // What the script does before it starts hvdrun.
  std::vector<std::string> modules;
  std::string conda;
  std::string venv;
  std::string container;

  std::string template_name;  // empty: the one that fits the other options
  std::vector<std::filesystem::path> template_folders;
  std::vector<VariableSetting> variables;  // --set in order

  std::filesystem::path script_file;  // -o; empty: stdout
  bool submit = false;
  bool test_only = false;
  bool wait = false;
  bool follow = false;
};

}  // namespace hvdrun
