// How a job and its attempts ended, and what its ranks reported. Plain values, made by job/ from
// the agents' messages, and printed and written by report/.
#pragma once

#include "model/generation.hpp"
#include "model/hang_report.hpp"
#include "model/placement.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// How a job, or one attempt, ended.
enum class EndKind {
  succeeded,      // every rank ended by exit(0)
  stopped_early,  // every rank ended by exit(0), as they agreed before the program's end
  rank_failed,    // by itself: a signal, a code, an abort, no finalize
  agent_lost,     // an agent or its guard was killed or failed, or its link broke
  start_timeout,  // --start-timeout
  exit_timeout,   // --exit-timeout: some ranks had succeeded
  quiet_timeout,  // --quiet-timeout
  interrupted,    // hvdrun got a signal
  output_failed,  // the reader of hvdrun's output is gone, or the output cannot be written
  refused,        // every attempt would fail alike: no such program or folder, another version
};

// Why an attempt is stopped before its end.
struct StopCause {
  EndKind kind = EndKind::rank_failed;
  std::string reason;            // one line; empty if a rank is to blame
  std::optional<int> exit_code;  // nullopt: that of the rank to blame
  // A signal that the ranks get before the kill signal; nullopt: none.
  std::optional<int> first_signal = {};
};

struct EpochCounts {
  std::uint64_t epoch = 0;  // its number in the program
  double seconds = 0;
  std::uint64_t samples = 0;  // of this rank
};

struct MetricValue {
  std::string name;
  double value = 0;
};

// What a rank has reported through libhvd (common/status_page.h).
struct RankCounters {
  bool joined =
      false;  // the rank joined the job through libhvd; false: it may still have reported progress
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double collective_seconds = 0;    // in collectives, waiting included
  double waiting_seconds = 0;       // of that, for other ranks
  std::uint64_t epochs_over = 0;    // how many have ended
  std::vector<EpochCounts> epochs;  // the latest of them, in order
  std::vector<MetricValue> metrics;
  std::optional<std::uint64_t> epoch;  // that it was in, from 0; empty: it has reported none
  std::uint64_t epochs_in_all = 0;     // 0: not known, as the next two
  std::uint64_t steps_in_all = 0;
  double samples_per_second = 0;  // from the first report of samples to the last
  std::uint64_t commits = 0;      // of its state, in a job that continues when ranks are lost
  bool had_to_stop = false;       // it stopped before the program's end, and not by its own choice
};

// Why a GPU lowered its clocks. A GPU that is idle, or whose clocks its administrator or user has
// set, does not do that.
enum class ThrottleReason : std::uint8_t {
  power_cap,         // it used as much power as it may; usual under full load
  hardware,          // by half or more, without one of the next two reasons
  hardware_thermal,  // the same, because it was too hot
  power_brake,       // the same, because the host's power supply asked for it
  software_thermal,  // by the driver, because the GPU or its memory was too hot
  board_limit,
  reliability,
};
inline constexpr std::size_t kThrottleReasons = 7;

struct Throttling {
  std::uint64_t samples = 0;
  // In how many of them each reason was seen, by ThrottleReason.
  std::array<std::uint64_t, kThrottleReasons> seen{};
};

// One GPU at one moment. What its driver did not say is nullopt.
struct GpuNow {
  std::optional<double> busy_percent = {};         // of the time, 0 to 100
  std::optional<std::uint64_t> memory_bytes = {};  // of all processes together
  std::optional<int> celsius = {};
  std::optional<double> watts = {};
};

// One GPU of a host, from samples while the ranks ran. What its driver did not say is nullopt; of a
// MIG device NVIDIA's says the memory only.
struct GpuUse {
  std::string uuid;                         // watched_name()
  std::string device = {};                  // for people: "GPU 3 (NVIDIA H200, 0000:3b:00.0)"
  std::uint64_t samples = 0;                // 0: the job ended before the first
  std::optional<double> busy_percent = {};  // of the time, 0 to 100, on average
  std::optional<std::uint64_t> peak_memory_bytes = {};  // of all processes together
  std::optional<int> peak_celsius = {};
  std::optional<double> mean_watts = {};
  std::optional<double> peak_watts = {};
  std::optional<Throttling> throttling = {};
  GpuNow now = {};  // the last sample
};

// What the agent of a host has seen of its GPUs, and of its ranks on them.
struct GpuRecord {
  std::vector<GpuUse> gpus;  // empty: no driver, or no answer from it yet
  // The most memory that the processes of a rank had together on one GPU, in bytes, by rank. Ranks
  // of which the driver did not say it are left out.
  std::map<int, std::uint64_t> rank_memory = {};
  bool rank_drove_all = false;  // there are several GPUs, and one rank computed on each of them
};

// Why a rank ends, as it has reported itself before its end.
struct RankFailure {
  bool reported = false;  // false: the rest has no meaning
  std::string text;       // several lines, such as a traceback; empty: see RankReport::last_error
  bool because_of_peer = false;  // only because another rank died or left
  bool before_stop = false;      // before hvdrun sent it a signal
  double seconds_ago = 0;        // how long before its end was noticed
};

// What a rank did when hvdrun stopped the job.
struct RankActivity {
  int pid = 0;              // of the rank, or of the program that it only waits for
  std::string program;      // its name, at most 15 bytes: "python3"
  std::string system_call;  // its first thread's: "futex", "computing"; empty: unknown
  double seconds = 0;       // since the rank's start
  double cpu_seconds = 0;   // used by all its threads
};

struct RankReport {
  RankPlacement placement;
  std::string host;
  int pid = 0;  // 0: never started
  bool exited = false;
  int exit_code = 0;  // if it ended by itself
  int signal = 0;     // the signal that ended it; 0: no signal
  bool core_dumped = false;
  bool out_of_memory = false;      // the cgroup reports that the kernel killed for lack of memory
  bool dev_shm_is_full = false;    // a SIGBUS ended it, and its host's /dev/shm had no room then
  bool stopped_by_us = false;      // it was alive when hvdrun stopped the job
  bool killed_by_us = false;       // it ended after hvdrun had sent it SIGKILL
  bool continued_without = false;  // it was lost, and the others formed a generation without it
  bool never_joined = false;       // it was started later, and was in no generation
  bool lost_connection = false;    // PMIx: it left without finalize
  std::optional<int> abort_code;   // it called MPI_Abort / PMIx_Abort
  std::string abort_message;
  double seconds = 0;                              // from start to end
  std::optional<double> seconds_with_others = {};  // if it was started later, and has joined them
  double user_seconds = 0;
  double system_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
  // Of its processes, on the GPU where they had most; nullopt: not known.
  std::optional<std::uint64_t> peak_gpu_memory_bytes = {};
  bool has_terminal = false;             // it had hvdrun's terminal (--tty)
  std::vector<std::string> last_stderr;  // last 20 lines; with a terminal, also of stdout
  bool stderr_in_sight = false;          // they are at the end of what the user's terminal shows
  std::string last_error;                // from the status page
  bool error_of_peer = false;            // the last error is that another rank died or left
  std::string in_collective;  // the collective it was in when it ended; from the status page
  RankCounters counters;      // from the status page
  RankFailure failure;        // from the status page
  // Set if the job was interrupted, or stopped by --exit-timeout, while the rank ran.
  std::optional<RankActivity> at_stop = {};
  // Seconds, on the launcher's clock: when it reported that, or else when its end was noticed.
  double failed_after = 0;
};

// Ranks that were waiting in a collective for others when hvdrun stopped the job.
struct CollectiveWait {
  std::string collective;  // "allreduce grad.3"
  double seconds = 0;      // the longest wait
  std::vector<int> waiting;
  std::vector<int> missing;  // the ranks that they waited for
  std::string text;          // the same for people: "ranks 0-2 had waited 14 s in …"
};

// The GPUs of one host. Hosts that have not reported any are left out.
struct HostGpus {
  std::string host;
  std::vector<GpuUse> gpus;
};

// What a host has that the job could use. Hosts whose agent has not reported it are left out.
struct HostHardware {
  std::string host;
  int cores = 0;
  std::vector<std::string> gpus;  // names in CUDA's order: "NVIDIA H200"; "" if not known
};

// How one attempt ended, in short.
struct AttemptReport {
  int exit_code = 0;
  std::string reason;  // "rank 3 on n1 failed: …", "the agent on n1 was lost"; empty: it succeeded
  std::optional<RankReport> first_failure;  // the rank that failed first
  // What its ranks reported of why they ended, and that GPUs were throttled, in lines.
  std::vector<std::string> failures;
  double wall_seconds = 0;
  double cpu_seconds = 0;                              // of all its ranks
  std::uint64_t peak_memory_bytes = 0;                 // of its largest rank
  std::optional<std::uint64_t> peak_gpu_memory_bytes;  // the same on a GPU; nullopt: not known
};

// How the job ended. After restarts: how the last attempt ended; `ranks` and `first_failure` are
// those of that attempt.
struct Report {
  int exit_code = 0;
  std::string reason;                // one line; empty if the job succeeded or a rank is to blame
  bool stopped_early = false;        // every rank succeeded, but they agreed to stop before the end
  std::optional<int> first_failure;  // the rank that failed first
  double wall_seconds = 0;           // of all attempts
  std::vector<RankReport> ranks;
  std::vector<HostGpus> gpus;
  std::vector<HostHardware> hardware;
  std::vector<CollectiveWait> waits;
  std::optional<HangReport> hang = {};  // what hvdrun found last of ranks that others waited for
  // No rank was seen to join another one: no libhvd, no PMIx, no TCP connection. A short connection
  // can be missed. False for a job that was too short to be examined.
  bool may_be_separate_runs = false;
  // One rank was seen to compute on all GPUs of its host, of which there are several.
  bool rank_drove_all_gpus = false;
  // A rank was seen to use TensorFlow, and had no TF_CONFIG.
  bool lacks_tf_config = false;
  bool uses_mpich = false;             // a rank was seen to
  bool lacks_pmix = false;             // a rank was seen to use Open MPI, and the job has no PMIx
  std::vector<std::string> notes;      // "stderr of rank 2 could not be written: …"
  std::vector<std::string> leftovers;  // what could not be ended: "pid 123 (python) on n1"

  // Set for a job that continues when ranks are lost.
  std::optional<GenerationsReport> generations = {};

  std::vector<AttemptReport> attempts;  // in order
  std::string not_restarted;  // why there was no further attempt although restarts were left
};

}  // namespace hvdrun
