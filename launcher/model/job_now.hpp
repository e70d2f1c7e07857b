// What a running job does at one moment, for commands that look into it (`hvdrun top`) and for
// --metrics. Plain values, made by job/ from what the agents report. What has only been counted
// since the rank's start gives rates by comparing two moments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct JobAbout {
  std::string id;
  int pid = 0;                // hvdrun's, as it sees it
  std::string version;        // of hvdrun
  std::string scheduler;      // in whose job it runs: "SLURM"; "": in none
  std::string scheduler_job;  // the id of that job
  std::vector<std::string> command;
  std::string folder;    // the working directory of the ranks
  double begun = 0;      // seconds since 1970
  std::string phase;     // "starting", "running", "stopping", "restarting", "over"
  int ranks = 0;         // that are in the job, without spares and lost ones; 0: not known yet
  int spares = 0;        // processes that run and are not in the job yet (--spares, --replace)
  int lost = 0;          // ranks without which the job continued, or will
  int ranks_in_all = 0;  // how many numbers of ranks were given
  int hosts = 0;
  int restarts = 0;
  std::string output_folder;  // of --output-filename; "": none
};

struct HostGpuNow {
  std::string uuid;
  std::string device;  // for people: "GPU 3 (NVIDIA H200, 0000:3b:00.0)"
  std::optional<double> busy_percent;
  std::optional<std::uint64_t> memory_bytes;  // of all processes together
  std::uint64_t memory_in_all = 0;            // 0: not known
  std::optional<int> celsius;
  std::optional<double> watts;
};

struct HostNow {
  std::string host;
  std::string state;  // "starting", "running", "silent", "lost", "done"
  double clock = 0;   // seconds, on its agent's clock, when it answered; 0: it has not
  std::vector<int> ranks;
  std::vector<HostGpuNow> gpus;
};

struct RankNow {
  int rank = 0;
  int host = 0;  // index in JobNow::hosts
  int pid = 0;   // 0: it has not started
  // "starting", "running", "sleeping", "waiting for a device", "stopped", "ended", "unknown": its
  // host has not answered
  std::string state;
  std::string role = "member";  // "spare": it is not in the job yet; "lost": no longer
  std::string end;              // how it has ended: "exit code 3"; "": it has not
  bool succeeded = false;       // it has ended with exit code 0
  std::optional<int> gpu;       // index in HostNow::gpus
  std::optional<std::uint64_t> epoch;
  std::uint64_t epochs = 0;  // in all; 0: not known, as the next four
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double samples_per_second = 0;         // from its first report of samples to the last
  std::optional<double> since_progress;  // seconds since it last reported steps or samples
  std::optional<double> loss;
  double collective_seconds = 0;     // in collectives until now, waiting included
  double waiting_seconds = 0;        // of that, for other ranks
  std::string collective;            // that it is in now: "allreduce grad.3"
  double in_collective_seconds = 0;  // since it began
  double cpu_seconds = 0;            // of its processes
  std::uint64_t memory_bytes = 0;    // resident
  int processes = 0;
};

// Ranks that wait in a collective for others.
struct WaitNow {
  std::string text;  // "ranks 0-2 have waited 14 s in …"
  std::string collective;
  double seconds = 0;
  std::vector<int> waiting;
  std::vector<int> missing;
};

struct JobNow {
  JobAbout about;
  double seconds = 0;  // since the job began
  std::vector<HostNow> hosts;
  std::vector<RankNow> ranks;
  std::vector<WaitNow> waits;
};

}  // namespace hvdrun
