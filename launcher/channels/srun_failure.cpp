#include "channels/srun_failure.hpp"

#include "base/event_loop.hpp"
#include "base/severity.hpp"
#include "channels/text_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

struct SrunHint {
  std::string_view words;  // in the message of srun, slurmstepd or the program's loader
  std::string_view advice;
};

// Hints on srun's own messages; the first match is used.
constexpr std::array kOfSrun{
    SrunHint{"revoked", "the allocation has ended (cancelled, or out of time)"},
    SrunHint{"Expired or invalid job", "the allocation has ended, or SLURM_JOB_ID names another"},
    SrunHint{"Invalid job id", "the allocation has ended, or SLURM_JOB_ID names another"},
    SrunHint{"already completing", "the allocation is ending (cancelled, or out of time)"},
    SrunHint{"generic resource",
             "the allocation has fewer GPUs on these hosts than were asked for"},
    SrunHint{"node configuration is not available",
             "SLURM cannot start a step there; is each host in the allocation, and up? "
             "(`sinfo -N -l`)"},
    SrunHint{"nvalid node name", "SLURM does not know such a host"},
    SrunHint{"nodes are busy",
             "other steps hold the hosts; end them, or start them with --overlap"},
    SrunHint{
        "step creation temporarily disabled",
        "SLURM starts no step in this allocation for now (`scontrol show job` says its state)"},
    SrunHint{"Unable to contact slurm controller",
             "SLURM's controller does not answer; `scontrol ping` must work here"},
    SrunHint{"configuration source",
             "SLURM's configuration is not found here; is SLURM_CONF missing?"},
    SrunHint{"unge", "SLURM's authentication failed; is munged running here?"},
    SrunHint{"uthentication", "SLURM's authentication failed"},
    SrunHint{"nrecognized option",
             "this SLURM's srun does not know an option that hvdrun needs (20.11 or later does); "
             "env -u SLURM_JOB_ID hvdrun -H HOST,HOST uses ssh"},
};

// Hints on messages of one host, before or instead of an agent.
constexpr std::array kOfHost{
    SrunHint{"error while loading shared libraries", "a library of hvdrun is missing there"},
    SrunHint{"Exec format error", "hvdrun there is built for another kind of processor"},
    SrunHint{"--internal-agent", "hvdrun there is another version; install the same on both"},
    SrunHint{"Communication connection failure", "SLURM's slurmd does not answer there"},
    SrunHint{"Communication shutdown failure", "SLURM's slurmd does not answer there"},
    SrunHint{"Socket timed out", "SLURM's slurmd does not answer there"},
    SrunHint{"Unable to contact slurmd", "SLURM's slurmd does not answer there"},
};

// Before the host's name in srun's messages: "Task launch for StepId=1.0 failed on node n3: …".
constexpr std::array<std::string_view, 2> kHostAfter{"failed on node ", "Node failure on "};

// srun's note on --cpu-bind where SLURM binds nothing anyway. It explains no failure.
constexpr std::string_view kIrrelevant = "lacks support for cpu binding";

template <class Table>
std::string advice_on(const Table& table, const std::string& text) {
  for (const auto& hint : table)
    if (contains(text, hint.words)) return fmt::format("{} ({})", hint.advice, text);
  return {};
}

std::string_view without(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) == prefix) text.remove_prefix(prefix.size());
  return text;
}

// Explains slurmstepd's line "slurmstepd: error: execve(): PATH: No such file or directory".
// Returns
// "" for another line.
std::string explain_execve(const std::string& text, const std::string& agent_path) {
  if (!contains(text, "execve()")) return {};
  if (contains(text, "No such file"))
    return fmt::format(
        "hvdrun not found at {}; install the same version there, or say where it is with "
        "--agent-path",
        agent_path);
  if (auto advice = advice_on(kOfHost, text); !advice.empty()) return advice;
  const auto colon = text.rfind(": ");
  return fmt::format("{} cannot be executed there: {}", agent_path, text.substr(colon + 2));
}

// Explains the end of a task by the lines of the agent, the loader or slurmstepd.
std::string explain_task(std::size_t task, const std::string& how,
                         const std::vector<SrunLine>& lines, const std::string& agent_path) {
  std::string last;
  for (const auto& line : lines) {
    if (line.task != task || line.text.empty()) continue;
    if (auto execve = explain_execve(line.text, agent_path); !execve.empty()) return execve;
    if (auto advice = advice_on(kOfHost, line.text); !advice.empty()) return advice;
    last = without_severity(without(line.text, "hvdrun: "));
  }
  if (!last.empty()) return last;
  return fmt::format("the agent ended before it had connected, without a word ({})", how);
}

// Returns what is missing on a task's host. `how`: srun's line, "Exited with exit code 127".
std::optional<AgentLack> find_lack_of(std::size_t task, std::string_view how,
                                      const std::vector<SrunLine>& lines,
                                      const std::string& agent_path) {
  constexpr std::string_view kExited = "Exited with exit code ";
  if (!how.starts_with(kExited)) return std::nullopt;
  int code = 0;
  const auto digits = how.substr(kExited.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), code);
  std::string errors;
  for (const auto& line : lines)
    if (line.task == task) errors += line.text + "\n";
  return find_lack(code, errors, agent_path);
}

void add(std::vector<SrunFailure>& failures, const std::string& host, std::string message,
         std::optional<AgentLack> lack) {
  const auto same = std::find_if(failures.begin(), failures.end(),
                                 [&](const auto& failure) { return failure.message == message; });
  if (same == failures.end())
    failures.push_back({{host}, std::move(message), std::move(lack)});
  else if (std::find(same->hosts.begin(), same->hosts.end(), host) == same->hosts.end())
    same->hosts.push_back(host);
}

// Returns the last of srun's own lines that may explain its end; "" if there is none.
std::string last_own_line(const std::vector<SrunLine>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (!line->task && !line->text.empty() && !contains(line->text, kIrrelevant)) return line->text;
  return {};
}

// Explains a line of srun that names a host. Returns nullopt for another line.
std::optional<SrunFailure> explain_host_failure(const std::string& text) {
  for (const auto words : kHostAfter) {
    const auto at = text.find(words);
    if (at == std::string::npos) continue;
    const auto begin = at + words.size();
    const auto host = text.substr(begin, text.find_first_of(": ", begin) - begin);
    auto advice = advice_on(kOfHost, text);
    return SrunFailure{
        {host}, advice.empty() ? "SLURM cannot use it (" + text + ")" : advice, std::nullopt};
  }
  return std::nullopt;
}

// Explains the ends of all tasks if SLURM has cancelled the step, which a host that fails may be
// the reason for: "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT … ***" is printed by another.
std::optional<SrunFailure> explain_cancellation(const std::vector<SrunLine>& lines) {
  const auto cancelled = std::ranges::find_if(lines, [](const SrunLine& line) {
    return contains(line.text, "*** STEP") && contains(line.text, "CANCELLED");
  });
  if (cancelled == lines.end()) return std::nullopt;
  for (const auto& line : lines)
    if (!line.task)
      if (auto failure = explain_host_failure(line.text)) return failure;
  return SrunFailure{{}, "SLURM has cancelled the step (" + cancelled->text + ")", std::nullopt};
}

}  // namespace

std::vector<SrunFailure> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path) {
  if (ends.empty()) return {};
  if (auto cancelled = explain_cancellation(lines)) return {std::move(*cancelled)};
  std::vector<SrunFailure> failures;
  for (const auto& end : ends)
    for (const auto task : end.tasks)
      add(failures, end.hosts, explain_task(task, end.how, lines, agent_path),
          find_lack_of(task, end.how, lines, agent_path));
  return failures;
}

SrunFailure explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines) {
  for (const auto& line : lines) {
    if (line.task) continue;
    if (auto failure = explain_host_failure(line.text)) return *failure;
    if (auto advice = advice_on(kOfSrun, line.text); !advice.empty())
      return {{}, advice, std::nullopt};
  }
  if (WIFSIGNALED(wait_status))
    return {{}, "srun was killed by " + signal_name(WTERMSIG(wait_status)), std::nullopt};
  if (auto text = last_own_line(lines); !text.empty()) return {{}, "srun: " + text, std::nullopt};
  return {{},
          fmt::format("srun ended with exit code {} and no message", WEXITSTATUS(wait_status)),
          std::nullopt};
}

std::string explain_srun_waiting(const std::vector<SrunLine>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->task) continue;
    if (auto advice = advice_on(kOfSrun, line->text); !advice.empty()) return advice;
  }
  return "srun was started, and the agent has not connected";
}

}  // namespace hvdrun
