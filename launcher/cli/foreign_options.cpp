#include "cli/foreign_options.hpp"

#include "cli/foreign_tables.hpp"

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {
namespace {

constexpr std::string_view kTuning = "it tunes Horovod's engine, which hvdrun does not use";
constexpr std::string_view kController = "hvdrun brings the ranks together itself";
constexpr std::string_view kLogging = "it is about Horovod's own messages; see --verbose";
constexpr std::string_view kCache = "hvdrun caches nothing between jobs";
constexpr std::string_view kCycle =
    "there is no cycle: collectives begin when the ranks have submitted them";
constexpr std::string_view kMarkCycles =
    "the variable does it: -x HOROVOD_TIMELINE_MARK_CYCLES=1 marks the rounds of libhvd's engine";
constexpr std::string_view kElastic =
    "a job keeps its hosts; --min-np M continues without ranks that are lost, --replace auto "
    "starts new ones in their places, and --max-restarts N starts a job again that has failed";
constexpr std::string_view kBinding =
    "hvdrun binds ranks to cores by itself; --bind-to and --cpus-per-rank say how";

constexpr std::string_view kHorovodrun = "horovodrun";

// In a scheduler's job, in place of every answer that says how to name hosts.
constexpr std::string_view kHostsOfJob =
    "leave it out: in a scheduler's job hvdrun finds the hosts and their GPUs, and starts the "
    "ranks "
    "on all of them; --include HOST,… and --exclude HOST,… choose hosts";

using Kind = ForeignOption::Kind;

constexpr ForeignOption flag_without_effect(std::string_view spelling, std::string_view reason) {
  return {{spelling}, kHorovodrun, Kind::accepted, false, reason};
}

constexpr ForeignOption value_without_effect(std::string_view spelling, std::string_view reason) {
  return {{spelling}, kHorovodrun, Kind::accepted, true, reason};
}

constexpr ForeignOption refused(std::string_view spelling, std::string_view reason,
                                std::string_view other_spelling = "") {
  return {{spelling, other_spelling}, kHorovodrun, Kind::refused, false, reason};
}

constexpr ForeignOption kOfHorovodrun[] = {
    flag_without_effect("--disable-cache", kCache),
    flag_without_effect("--gloo", kController),
    flag_without_effect("--mpi", kController),

    value_without_effect("--cycle-time-ms", kCycle),
    flag_without_effect("--hierarchical-allreduce", kTuning),
    flag_without_effect("--no-hierarchical-allreduce", kTuning),
    flag_without_effect("--hierarchical-allgather", kTuning),
    flag_without_effect("--no-hierarchical-allgather", kTuning),
    flag_without_effect("--torus-allreduce", kTuning),
    flag_without_effect("--no-torus-allreduce", kTuning),
    value_without_effect("--autotune-warmup-samples", kTuning),
    value_without_effect("--autotune-steps-per-sample", kTuning),
    value_without_effect("--autotune-bayes-opt-max-samples", kTuning),
    value_without_effect("--autotune-gaussian-process-noise", kTuning),
    value_without_effect("--num-nccl-streams", kTuning),
    flag_without_effect("--mpi-threads-disable", kTuning),
    flag_without_effect("--no-mpi-threads-disable", kTuning),
    value_without_effect("--gloo-timeout-seconds", kTuning),
    flag_without_effect("--timeline-mark-cycles", kMarkCycles),
    flag_without_effect("--no-timeline-mark-cycles", kMarkCycles),
    value_without_effect("--log-level", kLogging),
    flag_without_effect("--log-with-timestamp", kLogging),
    flag_without_effect("--log-without-timestamp", kLogging),
    flag_without_effect("--log-hide-timestamp", kLogging),
    flag_without_effect("--no-log-hide-timestamp", kLogging),

    refused("--host-discovery-script", kElastic),
    refused("--slots-per-host", "use --ranks-per-host K"),
    refused("--blacklist-cooldown-range", kElastic),
    refused("--mpi-args",
            "hvdrun calls no mpirun; Open MPI reads the variables OMPI_MCA_*, which reach the "
            "ranks: -x OMPI_MCA_NAME=VALUE for --mca NAME VALUE"),
    refused("--tcp", "hvdrun calls no mpirun; to keep NCCL off InfiniBand: -x NCCL_IB_DISABLE=1"),
    refused("--binding-args", kBinding),
    refused("--thread-affinity", kBinding),
    naming_hosts(refused("--jsrun",
                         "hvdrun starts the ranks itself: through ssh on the hosts of -H or "
                         "--hostfile, or in a SLURM job")),
};

// Returns whether the spelling is the known one, or begins as a known one that ends in "*".
bool is_spelled(std::string_view known, std::string_view spelling) {
  if (known.ends_with('*')) return spelling.starts_with(known.substr(0, known.size() - 1));
  return known == spelling;
}

}  // namespace

const std::vector<ForeignOption>& foreign_options() {
  static const std::vector<ForeignOption> options = [] {
    std::vector<ForeignOption> all(std::begin(kOfHorovodrun), std::end(kOfHorovodrun));
    for (const auto table : {options_of_mpi(), options_of_slurm(), options_of_python()})
      all.insert(all.end(), table.begin(), table.end());
    return all;
  }();
  return options;
}

const ForeignOption* find_foreign_option(std::string_view spelling, bool is_batch) {
  if (spelling.empty()) return nullptr;
  const ForeignOption* found = nullptr;
  for (const auto& option : foreign_options()) {
    if (option.batch_only && !is_batch) continue;
    for (const auto known : option.spellings)
      if (is_spelled(known, spelling) && (found == nullptr || option.batch_only)) found = &option;
  }
  return found;
}

std::string_view answer_to(const ForeignOption& option, bool has_scheduler) {
  return has_scheduler && option.names_hosts ? kHostsOfJob : option.text;
}

std::string refusal_of(const ForeignOption& option, const std::string& named, bool has_scheduler) {
  return named + " is an option of " + std::string(option.of) +
         " that hvdrun does not have: " + std::string(answer_to(option, has_scheduler));
}

}  // namespace hvdrun::cli
