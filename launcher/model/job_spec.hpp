// What the user asked for: a plain value, made from argv and the config file by cli/.
#pragma once

#include "model/rank_set.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

enum class BindTo { automatic, core, numa, none };
enum class GpuBind { all, single, none };
enum class PmixMode {
  automatic,  // a PMIx server where libpmix is installed
  on,         // an error where it is not
  off,        // none
};

// One -x: NAME alone passes the caller's value on, NAME=VALUE sets it.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;
};

// One entry of -H: "name:slots". No slots: as many as the host offers.
struct HostRequest {
  std::string name;
  std::optional<int> slots;
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

struct JobSpec {
  std::optional<int> ranks;  // -np; none: one per slot
  std::vector<HostRequest> hosts;
  std::optional<int> ranks_per_host;
  bool oversubscribe = false;

  BindTo bind_to = BindTo::automatic;
  std::optional<int> cpus_per_rank;
  GpuBind gpu_bind = GpuBind::all;

  std::vector<std::string> command;  // as typed; command[0] is the program
  std::filesystem::path program;     // what will be executed
  std::filesystem::path working_directory;
  std::vector<EnvironmentChange> environment;  // -x in order

  PmixMode pmix = PmixMode::automatic;
  StopSpec stop;
  int max_restarts = 0;  // how often a job that failed is started again
  std::chrono::milliseconds start_timeout{30000};
  OutputSpec output;
  InputSpec input;
  std::filesystem::path report_file;  // --report; empty: none

  int verbosity = 0;
  bool report_bindings = false;
  bool dry_run = false;
  bool json = false;
};

}  // namespace hvdrun
