#include "slurm/job_state.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace hvdrun {
namespace {

using Word = std::string_view;

// States of squeue(1), JOB STATE CODES, of SLURM 20.11 to 24.11.
constexpr std::array<Word, 6> kPending = {"PENDING",      "REQUEUED",     "REQUEUE_FED",
                                          "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
constexpr std::array<Word, 10> kEnded = {"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE",
                                         "FAILED",    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
                                         "REVOKED",   "TIMEOUT"};

// Reasons of squeue(1), JOB REASON CODES, with explanations of our own.
constexpr std::pair<Word, Word> kReasons[] = {
    {"Resources", "waits for hosts to become free"},
    {"Priority", "others come first"},
    {"Dependency", "waits for another job to end"},
    {"DependencyNeverSatisfied",
     "the job that it depends on did not end as it should: never starts"},
    {"BeginTime", "SLURM starts it at a set time, not before"},
    {"JobHeldUser", "held; scontrol release lets it go"},
    {"JobHeldAdmin", "held by an administrator"},
    {"JobArrayTaskLimit", "as many tasks of the array run as may at once"},
    {"Licenses", "waits for a licence"},
    {"Reservation", "waits for its reservation"},
    {"PartitionDown", "the partition is down"},
    {"PartitionInactive", "the partition starts no jobs"},
    {"PartitionConfig",
     "asks for more hosts, CPUs, GPUs, memory or time than the partition gives to a job: it never "
     "starts as it is"},
    {"PartitionNodeLimit",
     "asks for more hosts, or fewer, than the partition gives to a job: it never starts as it is"},
    {"PartitionTimeLimit",
     "asks for more time than the partition gives to a job: it never starts as it is"},
    {"NodeDown", "a host that it needs is down"},
    {"InvalidAccount", "its account may not be used here"},
    {"InvalidQOS", "its QOS may not be used here"},
    {"AccountNotAllowed", "its account may not use the partition"},
    {"ReqNodeNotAvail", "a host that it asks for is not available"},
    {"BadConstraints", "no host offers what it asks for"},
};

template <class Words>
bool has(const Words& words, Word word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

JobPhase phase_of(std::string_view state) {
  if (has(kPending, state)) return JobPhase::pending;
  return has(kEnded, state) ? JobPhase::ended : JobPhase::running;
}

std::string_view explain_reason(std::string_view reason) {
  reason = reason.substr(0, reason.find_first_of(", "));  // "ReqNodeNotAvail, UnavailableNodes:n1"
  for (const auto& [name, words] : kReasons)
    if (name == reason) return words;
  if (reason.starts_with("QOS")) return "a limit of its QOS: sacctmgr show qos lists them";
  if (reason.starts_with("Assoc")) return "a limit of its account: sacctmgr show assoc lists them";
  return {};
}

bool depends_on_partition(std::string_view reason) {
  return reason.starts_with("Partition") || reason == "BadConstraints";
}

std::string state_text(std::string_view state, std::string_view reason) {
  std::string text = escape(state);
  for (char& c : text)
    c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (phase_of(state) == JobPhase::pending && !reason.empty() && reason != "None")
    text += " (" + escape(reason) + ")";
  return text;
}

}  // namespace hvdrun
