// How a job ended: plain values, made by job/, printed and written by job/report_*.
#pragma once

#include "model/counters.hpp"
#include "model/placement.hpp"
#include "model/rank_failure.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

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
  std::optional<RankReport> culprit;  // the rank that failed first
  std::vector<std::string> failures;  // lines of what its ranks told of why they ended
  double wall_seconds = 0;
  double cpu_seconds = 0;               // of all its ranks
  std::uint64_t peak_memory_bytes = 0;  // of its largest rank
};

// How the job ended. With restarts: how its last try did, whose culprit and ranks these are.
struct Report {
  int exit_code = 0;
  std::string reason;  // one line; empty when all went well or a rank is to blame
  bool stopped_early =
      false;  // every rank succeeded, as they had agreed to before the program's end
  std::optional<int> culprit;  // the rank that failed first
  double wall_seconds = 0;     // of all tries
  std::vector<RankReport> ranks;
  std::vector<HostGpus> gpus;
  std::vector<CollectiveWait> waits;
  // No rank has had anything to do with another one: no libhvd, no PMIx, no TCP connection.
  bool ranks_were_strangers = false;
  std::vector<std::string> notes;      // "stderr of rank 2 could not be written: …"
  std::vector<std::string> leftovers;  // what could not be ended: "pid 123 (python) on n1"

  std::vector<AttemptReport> attempts;  // every try, in order
  std::string not_restarted;            // why there was no further one though restarts were left
};

}  // namespace hvdrun
