// SLURM's commands as hvdrun runs them: squeue, scancel, sacct, sbatch, sinfo.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/subprocess.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The environment of a command that asks or orders SLURM and whose output is parsed: `environment`
// without what would change that (SQUEUE_FORMAT, SCANCEL_STATE, …; their manual pages, section
// ENVIRONMENT VARIABLES), with LC_ALL=C, times as seconds since 1970, and lists of array tasks in
// full. SLURM_CONF and SLURM_CLUSTERS stay. Not for sbatch, which hands its environment on.
std::vector<std::string> query_environment(const Environment& environment);

// "NAME=VALUE" of all of them, as sbatch wants it.
std::vector<std::string> environment_block(const Environment& environment);

// The error of a command that is not there (kExitNotFound): "there is no SLURM on this machine: …".
// Other errors of spawn() pass as they are.
Error explain_start_failure(const std::string& program, Error error);
inline bool is_not_installed(const Error& error) {
  return error.exit_code == kExitNotFound;
}

// Runs it to its end, blocking. The program is looked for in PATH.
Result<ProgramEnd> run_slurm(ProgramRequest request);

// Where SLURM's commands find no slurm.conf and nobody who has it. (A controller without files on
// the hosts that is away looks the same.)
inline constexpr std::string_view kNoConfiguration = "Could not establish a configuration source";
inline constexpr const char* kNoCluster =
    "this machine has SLURM's commands, but belongs to no cluster (no slurm.conf)";
inline bool has_no_cluster(const ProgramEnd& end) {
  return end.code != 0 && end.err.find(kNoConfiguration) != std::string::npos;
}

// What a command that failed has said on stderr, in one line, without "squeue: error: " and the
// advice to try its --help. Never empty.
std::string complaint(const ProgramEnd& end);

// What the nodes of a partition have, as sinfo tells it. Pure but for query_partitions.

// A kind of node in a partition.
struct PartitionInfo {
  std::string partition;
  bool is_default = false;  // the partition that a job gets which names none
  int gpus = 0;
  int cpus = 0;  // as SLURM counts them
  int nodes = 0;
};

// sinfo's words, and what it printed: a line for each partition and kind of node. What is no such
// line is passed over.
std::vector<std::string> sinfo_command();
std::vector<PartitionInfo> parse_partitions(std::string_view text);

// What a node of the partition has (empty: of the default one). None: SLURM knows no such
// partition, or its nodes differ.
std::optional<PartitionInfo> offer_of(const std::vector<PartitionInfo>& offers,
                                      const std::string& partition);

// The same of this machine's SLURM. None also where there is none, or it does not answer.
std::optional<PartitionInfo> query_partitions(const std::string& partition,
                                              const Environment& environment);

// What salloc says on stderr, line by line. Pure functions.

struct SallocLine {
  enum class Kind {
    pending,  // the request is in the queue; `text` is the job's number
    granted,  // likewise
    revoked,  // the allocation is gone: time, scancel, a node; or it was given back before
    given_back,
    routine,  // what a user need not know
    other,    // errors, and what sites' plugins say; `text` is without salloc's own prefix
  };
  Kind kind = Kind::other;
  std::string text;
};

// The words are the same in SLURM 20.11 to 24.11.
SallocLine read_salloc_line(std::string_view line);

}  // namespace hvdrun
