// What launcher and agent send each other: one struct for each type of frame, and how it is packed
// into bytes.
//
// Structured payloads are CBOR (RFC 8949), by nlohmann/json. Frequent ones (output, input, credits)
// are packed by hand. Pure functions and values. parse() returns an error for any bytes that are no
// such message, and never crashes.
#pragma once

#include "base/result.hpp"
#include "base/system.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "protocol/frame.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hvdrun {

// Converts what a host offers to and from a part of a message. inventory_of throws
// nlohmann::json::exception if the JSON is no inventory.
nlohmann::json inventory_json(const HostInventory& inventory);
HostInventory inventory_of(const nlohmann::json& json);

// launcher → an agent on another host, the first frame: what an agent on this host has from fork.
struct ConfigureMessage {
  std::uint32_t protocol = kProtocolVersion;
  std::string version;  // of hvdrun
  std::string job_id;
  std::size_t agent = 0;  // which of the job's
  int restart_count = 0;
  PmixMode pmix = PmixMode::automatic;
  // How many it will be asked to start; 0: not known yet.
  std::size_t local_ranks = 0;
  // Both sides send signs of life several times in this long.
  std::chrono::milliseconds host_timeout{0};
};

// agent → launcher, the first frame.
struct HelloMessage {
  std::uint32_t protocol = kProtocolVersion;
  std::string version;                     // of hvdrun
  std::string host;                        // as the agent's kernel names it
  int pid = 0;                             // the agent's
  std::string route;                       // of the link, for people
  std::optional<HostInventory> inventory;  // of another host than the launcher's
};

// launcher → agent: hold this many TCP ports for the ranks, from the launch to the job's end.
struct HoldPortsMessage {
  int count = 0;
  // MASTER_PORT: all ports but the first stay out of its reach (host_setup.hpp). 0: it is the first
  // of these ports.
  int master_port = 0;
};

// agent → launcher: the ports that it holds.
struct PortsMessage {
  std::vector<int> ports;
};

struct LaunchRank {
  int rank = 0;
  int local_rank = 0;
  bool wants_input = false;  // gets a pipe as stdin; the others /dev/null
  std::vector<std::pair<std::string, std::string>> environment;  // added to the job's
  std::vector<int> cpus;                                         // empty: not bound
  std::vector<int> numa_nodes;                                   // empty: not bound
};

struct LaunchHost {
  std::string name;
  std::vector<int> ranks;
};

// launcher → agent: everything an agent needs to start its ranks.
struct LaunchMessage {
  int size = 0;
  int host_index = 0;
  std::vector<LaunchHost> hosts;  // all of the job, where there is PMIx
  std::string pmix_namespace;     // PmixJob::nspace
  std::string program;
  std::vector<std::string> arguments;  // argv, the program's name included
  std::string working_directory;
  std::vector<std::string> environment;     // "NAME=VALUE", the same for all ranks
  std::vector<std::string> host_variables;  // names whose values the agent has, not the launcher
  std::vector<ResourceLimit> limits;        // the launcher's; none: they are the agent's own
  std::vector<LaunchRank> ranks;            // of this agent
  std::string mlx_hosts;                    // what MLX_HOSTFILE is to hold; empty: no such file
  std::vector<std::string> gpus;            // NVML's names of those to look at; see GpuUse
  std::chrono::milliseconds stall_time{0};  // tell waits in collectives after so long; 0: never
  // How to stop when the launcher is gone and cannot say.
  int kill_signal = 0;
  std::chrono::milliseconds grace{0};
};

struct StartedMessage {
  std::vector<std::pair<int, int>> pids;  // rank, pid
};

struct ExitedMessage {
  int rank = 0;
  int wait_status = 0;           // as of wait(2)
  bool before_stop = false;      // it had ended before this agent sent it a signal
  bool lost_connection = false;  // it left PMIx without finalize
  bool out_of_memory = false;
  double seconds = 0;
  double user_seconds = 0;
  double system_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::string last_error;     // from the status page
  std::string in_collective;  // likewise
  RankCounters counters;      // likewise
  RankFailure failure;        // likewise
};

struct AbortedMessage {  // a rank called PMIx_Abort (MPI_Abort)
  int rank = 0;
  int code = 0;
  std::string text;
};

struct FailedMessage {  // the agent could not start the ranks, or go on
  std::string text;
  int exit_code = kExitLauncher;
};

struct StopMessage {
  int signal = 0;
  std::chrono::milliseconds grace{0};
};

struct RankState {
  int rank = 0;
  int pid = 0;
  std::string state;  // "running", "paused", "exited 0", "killed by SIGTERM"
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string collective;         // in progress, with its name
  double collective_seconds = 0;  // since it began
  std::string background = {};    // the same of the one in the background that waits longest
  double background_seconds = 0;
  std::string background_missing = {};  // the ranks that it waits for, "2,5-7"; empty: not known
};

// Why the launcher asks for states; the answer repeats it. `stop`: nobody has asked, the agent is
// about to stop its ranks.
enum class StatesPurpose : std::uint32_t { table, stalls, stop };

struct StatesMessage {
  std::vector<RankState> ranks;
  StatesPurpose purpose = StatesPurpose::table;
};

struct StallsMessage {  // an agent's ranks wait in collectives for too long, or not any more
  struct Wait {
    int rank = 0;
    std::string collective;
    bool completed = false;
  };
  std::vector<Wait> begun;
  std::vector<Wait> over;  // completed, or failed
};

struct DoneMessage {
  std::vector<std::string> leftovers;  // processes that could not be ended
  std::vector<GpuUse> gpus = {};
  // Whether one of its ranks was seen to join others, or may have: libhvd, PMIx, TCP.
  bool ranks_joined = true;
  // Whether one of its ranks was seen to compute on all GPUs of the host, of which there are
  // several.
  bool rank_drove_all_gpus = false;
  // Whether one of its ranks was seen to use TensorFlow, and its ranks were given no TF_CONFIG.
  bool lacks_tf_config = false;
};

std::string pack(const ConfigureMessage&);
std::string pack(const HelloMessage&);
std::string pack(const HoldPortsMessage&);
std::string pack(const PortsMessage&);
std::string pack(const LaunchMessage&);
std::string pack(const StartedMessage&);
std::string pack(const ExitedMessage&);
std::string pack(const AbortedMessage&);
std::string pack(const FailedMessage&);
std::string pack(const StopMessage&);
std::string pack(const StatesMessage&);
std::string pack(const StallsMessage&);
std::string pack(const DoneMessage&);

// T is one of the messages above.
template <class T>
Result<T> parse(std::string_view payload);

// Output: rank u32 | stream u8 | milliseconds since the epoch u64, then the bytes.
struct OutputHeader {
  std::uint32_t rank = 0;
  std::uint8_t stream = 0;
  std::uint64_t milliseconds = 0;
};
inline constexpr std::size_t kOutputHeaderSize = 13;
std::string pack_output_header(const OutputHeader&);
struct OutputMessage {
  OutputHeader header;
  std::string_view bytes;  // inside the frame's payload
};
Result<OutputMessage> parse_output(std::string_view payload);

// Input: rank u32, then the bytes. Credits and signals: one u32.
std::string pack_input(std::uint32_t rank, std::string_view bytes);
struct InputMessage {
  std::uint32_t rank = 0;
  std::string_view bytes;
};
Result<InputMessage> parse_input(std::string_view payload);

// Input credit: rank u32, bytes u32.
struct InputCredit {
  std::uint32_t rank = 0;
  std::uint32_t bytes = 0;
};
std::string pack_input_credit(const InputCredit&);
Result<InputCredit> parse_input_credit(std::string_view payload);

std::string pack_number(std::uint32_t value);
Result<std::uint32_t> parse_number(std::string_view payload);

}  // namespace hvdrun
