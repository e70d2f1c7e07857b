// The messages between launcher and agent: a struct for each type of frame, and how it is packed
// into bytes. Pure functions and values.
//
// Structured payloads are CBOR (RFC 8949), by nlohmann/json. Frequent ones (output, input, credits)
// are packed by hand. parse() accepts any bytes and returns an error for a malformed message.
#pragma once

#include "base/resource_limits.hpp"
#include "base/result.hpp"
#include "base/terminal.hpp"
#include "model/host_facts.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/progress.hpp"
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

namespace hvdrun {

// launcher → an agent on another host, the first frame: what an agent on this host inherits by
// fork.
struct ConfigureMessage {
  std::uint32_t protocol = kProtocolVersion;
  std::string version;  // of hvdrun
  std::string job_id;
  std::size_t agent = 0;  // its index among the job's agents
  int restart_count = 0;
  PmixMode pmix = PmixMode::automatic;
  // The number of ranks that it is to start; 0: not known yet.
  std::size_t local_ranks = 0;
  // --host-timeout. Both sides send signs of life several times in this time.
  std::chrono::milliseconds host_timeout{0};
  std::vector<std::string> names = {};  // see AgentOptions
  std::vector<DeviceChoice> devices = {};
  // The agent that was lost on this host, and whose place it takes.
  std::optional<std::size_t> predecessor = {};
};

// agent → launcher, the first frame.
struct HelloMessage {
  std::uint32_t protocol = kProtocolVersion;
  std::string version;                     // of hvdrun
  std::string host;                        // as the agent's kernel names it
  int pid = 0;                             // the agent's
  std::string route;                       // of the link, for people
  std::optional<HostInventory> inventory;  // only from a host other than the launcher's
  std::string pmix_error = {};  // why libpmix cannot be opened, if PmixMode::automatic; or else ""
  std::vector<int> ports = {};  // that it has reserved without being asked
  std::optional<HostFacts> facts = {};
};

// launcher → agent: reserve this many TCP ports for the ranks, from the launch to the job's end.
struct HoldPortsMessage {
  int count = 0;
  // MASTER_PORT. All ports but the first are chosen away from it (held_ports.hpp). 0: MASTER_PORT
  // is the first of these ports.
  int master_port = 0;
};

// agent → launcher: the ports that it has reserved.
struct PortsMessage {
  std::vector<int> ports;
};

struct LaunchRank {
  int rank = 0;
  int local_rank = 0;
  bool wants_input = false;                  // gets a pipe as stdin; the others /dev/null
  bool inherits_input = false;               // gets the agent's own stdin
  std::optional<TerminalSettings> terminal;  // gets a pseudo-terminal with these, for all streams
  std::vector<std::pair<std::string, std::string>> environment;  // added to the job's
  std::vector<int> cpus;                                         // empty: not bound
  std::vector<int> numa_nodes;                                   // empty: not bound
};

struct LaunchHost {
  std::string name;
  std::vector<int> ranks;
  // At which the ranks of the other hosts reach it: a name, or a number.
  std::string address = {};
};

// launcher → agent: everything an agent needs to start its ranks.
struct LaunchMessage {
  int size = 0;
  int host_index = 0;
  std::vector<LaunchHost> hosts;  // all of the job
  std::string pmix_namespace;     // PmixJob::nspace; empty: PMIx is not used
  std::string program;
  std::vector<std::string> arguments;  // argv, the program's name included
  std::string working_directory;
  std::vector<std::string> environment;     // "NAME=VALUE", the same for all ranks
  std::vector<std::string> host_variables;  // names whose values are the agent's
  std::vector<ResourceLimit> limits;        // the launcher's; empty: the agent's own apply
  std::optional<int> umask;                 // the launcher's; nullopt: the agent's own applies
  int niceness = 0;                         // the launcher's; the ranks have no lower one
  std::vector<LaunchRank> ranks;            // of this agent
  std::string mlx_hosts;                    // content of MLX_HOSTFILE; empty: no such file
  std::string gpu_vendor;                   // GpuVendor::name of the GPUs to watch
  std::vector<std::string> gpus;            // watched_name() of each; empty: none
  std::chrono::milliseconds stall_time{0};  // report longer waits in collectives; 0: never
  std::chrono::milliseconds join_time{0};   // say then that no rank has joined yet; 0: never
  // How often to report the training's progress; 0: never.
  std::chrono::milliseconds progress_interval{0};
  bool elastic = false;        // the ranks are members, and the job continues when some are lost
  std::string key;             // then: HVD_JOB_KEY of each rank, which proves that it is a member
  bool grows = false;          // more ranks may be started later: the agent waits for `release`
  bool order_streams = false;  // stdout and stderr come to one place: keep the order of writes
  // How to stop the ranks if the launcher is lost.
  int kill_signal = 0;
  std::chrono::milliseconds grace{0};
};

// launcher → agent: ranks to start while others run.
struct StartMoreMessage {
  std::vector<LaunchRank> ranks;
};

struct StartedMessage {
  std::vector<std::pair<int, int>> pids;  // rank, pid
};

struct ExitedMessage {
  int rank = 0;
  int wait_status = 0;           // as of wait(2)
  bool before_stop = false;      // it ended before this agent sent it a signal
  bool after_kill = false;       // it ended after this agent sent it SIGKILL
  bool lost_connection = false;  // it left PMIx without finalize
  bool out_of_memory = false;
  bool dev_shm_is_full = false;  // a SIGBUS ended it, and /dev/shm has no room
  double seconds = 0;
  double user_seconds = 0;
  double system_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::uint64_t input_taken = 0;  // bytes of input frames that it has read
  // From the status page:
  std::string last_error;
  bool error_of_peer = false;  // the last error is that another rank died or left
  std::string in_collective;
  RankCounters counters;
  RankFailure failure;
  // Seconds, when the agent made this message, on a clock that only this host's agent has.
  double agent_clock = 0;
};

struct AbortedMessage {  // a rank called PMIx_Abort (MPI_Abort)
  int rank = 0;
  int code = 0;
  std::string text;
  double agent_clock = 0;  // seconds, when it did
};

struct FailedMessage {  // the agent cannot start the ranks, or cannot continue
  std::string text;
  int exit_code = kExitLauncher;
};

struct StopMessage {
  int signal = 0;
  std::chrono::milliseconds grace{0};
};

// What a rank has counted and used until now. 0: not known, unless it says otherwise.
struct RankUse {
  std::optional<std::uint64_t> epoch;
  std::uint64_t epochs_in_all = 0;
  std::uint64_t steps_in_all = 0;
  std::uint64_t samples = 0;
  double samples_per_second = 0;         // from the first report of samples to the last
  std::optional<double> since_progress;  // seconds since it last reported steps or samples
  double collective_seconds = 0;         // in collectives, waiting included
  double waiting_seconds = 0;            // of that, for other ranks
  std::optional<double> loss;
  int processes = 0;               // of the rank
  double cpu_seconds = 0;          // of all of them
  std::uint64_t memory_bytes = 0;  // resident
};

struct RankState {
  int rank = 0;
  int pid = 0;
  std::string state;  // "running", "paused", "exited 0", "killed by SIGTERM"
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string collective;         // in progress, with its name
  double collective_seconds = 0;  // since it began
  std::uint64_t calls = 0;        // how many collectives it has completed before
  std::string background = {};  // the background collective that has waited longest, with its name
  double background_seconds = 0;
  std::string background_missing = {};  // the ranks that it waits for, "2,5-7"; empty: unknown
  RankActivity activity =
      {};  // only for Wanted::at_stop, if the rank is alive; ::processor_time: its CPU time
  std::optional<RankUse> use = {};  // only for Wanted::use
};

// How much an agent is asked of its ranks. Of the first four each reads more of /proc than the one
// before it.
enum class Wanted : std::uint32_t {
  pages,           // what the ranks say themselves
  states,          // and the states of their processes
  processor_time,  // and what they have used of processors
  use,             // and what `hvdrun top` shows: memory, processes, GPUs
  looks,           // the states, and what the threads do, from outside (launcher/look)
  at_stop          // what the first process of a rank does, when the agent is about to stop it
};

// launcher → agent: what do the ranks do? The answer repeats `number`.
struct QuestionMessage {
  std::uint32_t number = 0;  // not 0
  Wanted wanted = Wanted::pages;
  // Only for Wanted::looks:
  std::chrono::milliseconds interval{0};  // between the two looks at a process
  std::chrono::milliseconds limit{0};     // for the answer
};

struct AnswerMessage {
  std::uint32_t number = 0;  // 0: of no question, the agent is about to stop its ranks
  std::vector<RankState> ranks;
  double clock = 0;  // seconds, when it was made, on a clock that only this host's agent has
  std::vector<GpuUse> gpus = {};  // only for Wanted::use
  // Only for Wanted::looks:
  std::vector<std::string> looks = {};  // each as look_json() of hvdrun-look writes it
  std::string problem = {};             // why looks are missing; empty: none are
  bool more = false;                    // the looks are still to come, in another message
};

struct StallsMessage {  // ranks wait in collectives for longer than stall_time, or no longer wait
  struct Wait {
    int rank = 0;
    std::string collective;
    bool completed = false;
  };
  std::vector<Wait> begun;
  std::vector<Wait> over;  // completed, or failed
};

struct ProgressMessage {  // of the agent's ranks that are alive
  HostProgress host;
};

// What is known of ranks that were not seen to join others.
struct ApartMessage {
  bool lacks_tf_config = false;  // one uses TensorFlow, and they were given no TF_CONFIG
  bool uses_mpich = false;
  bool lacks_pmix = false;  // one uses Open MPI, and they were given no PMIx
  bool joined = false;      // they were said to be apart, and have joined since
};

struct DoneMessage {
  std::vector<std::string> leftovers;  // processes that could not be ended
  GpuRecord gpus = {};
  // One of its ranks was seen to join others by libhvd, PMIx or TCP, or may have: a short job is
  // not examined.
  bool ranks_joined = true;
  ApartMessage apart = {};
};

// T is one of the messages above. message_fields.hpp lists their fields.
template <class T>
std::string pack(const T& message);
template <class T>
Result<T> parse(std::string_view payload);

// A payload of output is rank u32 | stream u8 | milliseconds since 1970 u64, and then the bytes.
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

// A payload of input is rank u32, and then the bytes.
std::string pack_input(std::uint32_t rank, std::string_view bytes);
struct InputMessage {
  std::uint32_t rank = 0;
  std::string_view bytes;
};
Result<InputMessage> parse_input(std::string_view payload);

// A payload of input credit is rank u32 | bytes u32.
struct InputCredit {
  std::uint32_t rank = 0;
  std::uint32_t bytes = 0;
};
std::string pack_input_credit(const InputCredit&);
Result<InputCredit> parse_input_credit(std::string_view payload);

// The payload of output credits and signals is one u32.
std::string pack_number(std::uint32_t value);
Result<std::uint32_t> parse_number(std::string_view payload);

}  // namespace hvdrun
