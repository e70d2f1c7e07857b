// What a job, or one try of it, has come to, and what its ranks counted: plain values.
#pragma once

#include "model/placement.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

// How a job, or one try of it, has ended.
enum class EndKind {
  well,           // every rank ended with 0
  stopped_early,  // likewise, but they had agreed to stop before the program's end
  rank_failed,    // by itself: a signal, a code, an abort, no finalize
  agent_lost,     // an agent or its guard was killed, its link broke, or it could not go on
  start_timeout,  // --start-timeout
  exit_timeout,   // --exit-timeout: some ranks had succeeded
  interrupted,    // a signal to hvdrun: the user
  output_failed,  // nobody reads the output any more, or it cannot be written
  refused,        // what every try would meet again: no such program or folder, another version
};

// Why a try is stopped before its end.
struct StopCause {
  EndKind kind = EndKind::rank_failed;
  std::string reason;            // one line; empty when a rank is to blame
  std::optional<int> exit_code;  // none: that of the rank to blame
};

struct EpochCounts {
  std::uint64_t epoch = 0;  // its number, as the program counts
  double seconds = 0;
  std::uint64_t samples = 0;  // of this rank
};

struct MetricValue {
  std::string name;
  double value = 0;
};

// What a rank has told through libhvd (common/status_page.h).
struct RankCounters {
  bool joined = false;  // the job, through libhvd; else all that follows is 0
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double collective_seconds = 0;    // in collectives, waiting included
  double waiting_seconds = 0;       // of that, for other ranks
  std::uint64_t epochs_over = 0;    // how many there were
  std::vector<EpochCounts> epochs;  // the latest of them, in order
  std::vector<MetricValue> metrics;
  bool had_to_stop = false;  // before the program's end, and not by its own wish
};

// One GPU of a host, as NVML has shown it every now and then while the ranks ran.
struct GpuUse {
  std::string uuid;
  std::uint64_t looks = 0;              // how often; 0: the job was over before the first
  double busy_percent = 0;              // of the time, on average
  bool busy_is_known = false;           // MIG devices do not tell
  std::uint64_t peak_memory_bytes = 0;  // of all that was on the GPU, by any process
  std::set<int> pids = {};  // of those that were seen to compute on it; on its host only
};

// What a rank has reported, before its end, of why it ends.
struct RankFailure {
  bool reported = false;  // false: nothing, and the rest has no meaning
  std::string text;  // several lines, such as a traceback; empty: RankReport::last_error is all
  bool because_of_peer = false;  // only because another rank had died or left
  bool before_stop = false;      // before hvdrun sent it a signal
  double seconds_ago = 0;        // that long before its end was noticed
};

// How a job ended: plain values, made by job/, printed and written by job/report_*.

struct RankReport {
  RankPlacement placement;
  std::string host;
  int pid = 0;  // 0: never started
  bool exited = false;
  int exit_code = 0;  // when it ended by itself
  int signal = 0;     // when a signal ended it; 0: none
  bool core_dumped = false;
  bool out_of_memory = false;     // the cgroup says that the kernel killed for memory
  bool stopped_by_us = false;     // it was still alive when hvdrun stopped the job
  bool lost_connection = false;   // PMIx: left without finalize
  std::optional<int> abort_code;  // it called MPI_Abort / PMIx_Abort
  std::string abort_message;
  double seconds = 0;  // from start to end
  double user_seconds = 0;
  double system_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::vector<std::string> last_stderr;  // last 20 lines
  std::string last_error;                // the status page's
  std::string in_collective;             // the collective it was in when it ended, from the page
  RankCounters counters;                 // likewise
  RankFailure failure;                   // likewise
  double failed_after =
      0;  // when it told of that, or its end was heard of; on the launcher's clock
};

// Ranks that waited in a collective for others when hvdrun stopped the job.
struct CollectiveWait {
  std::string collective;  // "allreduce grad.3"
  double seconds = 0;      // the longest wait
  std::vector<int> waiting;
  std::vector<int> missing;  // those that they waited for
  std::string text;          // all of it for people: "ranks 0-2 had waited 14 s in …"
};

// The GPUs of a host, of one that has told.
struct HostGpus {
  std::string host;
  std::vector<GpuUse> gpus;
};

// How one try of a job ended, in short.
struct AttemptReport {
  int exit_code = 0;
  std::string reason;  // "rank 3 on n1 failed: …", "the agent on n1 was lost"; empty: it went well
  std::optional<RankReport> first_failure;  // the rank that failed first
  std::vector<std::string> failures;        // lines of what its ranks told of why they ended
  double wall_seconds = 0;
  double cpu_seconds = 0;               // of all its ranks
  std::uint64_t peak_memory_bytes = 0;  // of its largest rank
};

// How the job ended. After restarts: how the last try ended; `ranks` and `first_failure` are those
// of that try.
struct Report {
  int exit_code = 0;
  std::string reason;  // one line; empty when all went well or a rank is to blame
  bool stopped_early =
      false;  // every rank succeeded, as they had agreed to before the program's end
  std::optional<int> first_failure;  // the rank that failed first
  double wall_seconds = 0;           // of all tries
  std::vector<RankReport> ranks;
  std::vector<HostGpus> gpus;
  std::vector<CollectiveWait> waits;
  // No rank was seen to join another one: no libhvd, no PMIx, no TCP connection. A short connection
  // can be missed.
  bool may_be_separate_runs = false;
  // One rank was seen to compute on all GPUs of its host, of which there are several.
  bool rank_drove_all_gpus = false;
  // A rank was seen to use TensorFlow, and had no TF_CONFIG.
  bool lacks_tf_config = false;
  std::vector<std::string> notes;      // "stderr of rank 2 could not be written: …"
  std::vector<std::string> leftovers;  // what could not be ended: "pid 123 (python) on n1"

  std::vector<AttemptReport> attempts;  // every try, in order
  std::string not_restarted;            // why there was no further one though restarts were left
};

}  // namespace hvdrun
