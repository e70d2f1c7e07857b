#include "remote/srun_failure.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

struct Trouble {
  std::string_view words;  // in what srun, slurmstepd or the program's loader say
  std::string_view advice;
};

// Of srun itself; the first that fits.
constexpr std::array kOfSrun{
    Trouble{"revoked", "the allocation has ended (cancelled, or out of time)"},
    Trouble{"Expired or invalid job", "the allocation has ended, or SLURM_JOB_ID names another"},
    Trouble{"Invalid job id", "the allocation has ended, or SLURM_JOB_ID names another"},
    Trouble{"already completing", "the allocation is ending (cancelled, or out of time)"},
    Trouble{"generic resource", "the allocation has fewer GPUs on these hosts than were asked for"},
    Trouble{"node configuration is not available",
            "SLURM cannot start a step there; is each host in the allocation, and up? "
            "(`sinfo -N -l`)"},
    Trouble{"nvalid node name", "SLURM does not know such a host"},
    Trouble{"nodes are busy", "other steps hold the hosts; end them, or start them with --overlap"},
    Trouble{"step creation temporarily disabled",
            "SLURM starts no step in this allocation for now (`scontrol show job` says its state)"},
    Trouble{"Unable to contact slurm controller",
            "SLURM's controller does not answer; `scontrol ping` must work here"},
    Trouble{"configuration source",
            "SLURM's configuration is not found here; is SLURM_CONF missing?"},
    Trouble{"unge", "SLURM's authentication failed; is munged running here?"},
    Trouble{"uthentication", "SLURM's authentication failed"},
    Trouble{"nrecognized option",
            "this SLURM's srun does not know an option that hvdrun needs (20.11 or later does); "
            "-H with ssh works without srun"},
};

// Of one host: before or instead of an agent.
constexpr std::array kOfHost{
    Trouble{"error while loading shared libraries", "a library of hvdrun is missing there"},
    Trouble{"Exec format error", "hvdrun there is built for another kind of processor"},
    Trouble{"--internal-agent", "hvdrun there is another version; install the same on both"},
    Trouble{"Communication connection failure", "SLURM's slurmd does not answer there"},
    Trouble{"Communication shutdown failure", "SLURM's slurmd does not answer there"},
    Trouble{"Socket timed out", "SLURM's slurmd does not answer there"},
    Trouble{"Unable to contact slurmd", "SLURM's slurmd does not answer there"},
};

// A trouble of srun's step that names its host: "Task launch for StepId=1.0 failed on node n3: …".
constexpr std::array<std::string_view, 2> kHostAfter{"failed on node ", "Node failure on "};

// What srun says of --cpu-bind where SLURM binds nothing anyway.
constexpr std::string_view kNoise = "lacks support for cpu binding";

bool has(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

template <class Table>
std::string advice_on(const Table& table, const std::string& text) {
  for (const auto& trouble : table)
    if (has(text, trouble.words)) return fmt::format("{} ({})", trouble.advice, text);
  return {};
}

std::string_view without(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) == prefix) text.remove_prefix(prefix.size());
  return text;
}

// slurmstepd's: "slurmstepd: error: execve(): PATH: No such file or directory".
std::string explain_execve(const std::string& text, const std::string& agent_path) {
  if (!has(text, "execve()")) return {};
  if (has(text, "No such file"))
    return fmt::format(
        "hvdrun not found at {}; install the same version there, or say where it is with "
        "--agent-path",
        agent_path);
  if (auto advice = advice_on(kOfHost, text); !advice.empty()) return advice;
  const auto colon = text.rfind(": ");
  return fmt::format("{} cannot be executed there: {}", agent_path, text.substr(colon + 2));
}

// What the agent, the loader or slurmstepd has said of this task that explains its end.
std::string explain_task(std::size_t task, const std::string& how,
                         const std::vector<SrunLine>& lines, const std::string& agent_path) {
  std::string last;
  for (const auto& line : lines) {
    if (line.task != task || line.text.empty()) continue;
    if (auto execve = explain_execve(line.text, agent_path); !execve.empty()) return execve;
    if (auto advice = advice_on(kOfHost, line.text); !advice.empty()) return advice;
    last = without(line.text, "hvdrun: ");
  }
  if (!last.empty()) return last;
  return fmt::format("the agent ended before it had connected, without a word ({})", how);
}

void add(std::vector<SrunTrouble>& troubles, const std::string& host, std::string message) {
  const auto same = std::find_if(troubles.begin(), troubles.end(),
                                 [&](const auto& trouble) { return trouble.message == message; });
  if (same == troubles.end())
    troubles.push_back({{host}, std::move(message)});
  else if (std::find(same->hosts.begin(), same->hosts.end(), host) == same->hosts.end())
    same->hosts.push_back(host);
}

// The last of srun's own lines that tells something.
std::string last_words(const std::vector<SrunLine>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (!line->task && !line->text.empty() && !has(line->text, kNoise)) return line->text;
  return {};
}

std::optional<SrunTrouble> host_trouble(const std::string& text) {
  for (const auto words : kHostAfter) {
    const auto at = text.find(words);
    if (at == std::string::npos) continue;
    const auto begin = at + words.size();
    const auto host = text.substr(begin, text.find_first_of(": ", begin) - begin);
    auto advice = advice_on(kOfHost, text);
    return SrunTrouble{{host}, advice.empty() ? "SLURM cannot use it (" + text + ")" : advice};
  }
  return std::nullopt;
}

}  // namespace

std::vector<SrunTrouble> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path) {
  std::vector<SrunTrouble> troubles;
  for (const auto& end : ends)
    for (const auto task : end.tasks)
      add(troubles, end.hosts, explain_task(task, end.how, lines, agent_path));
  return troubles;
}

SrunTrouble explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines) {
  for (const auto& line : lines) {
    if (line.task) continue;
    if (auto trouble = host_trouble(line.text)) return *trouble;
    if (auto advice = advice_on(kOfSrun, line.text); !advice.empty()) return {{}, advice};
  }
  if (WIFSIGNALED(wait_status))
    return {{}, fmt::format("srun was killed by signal {}", WTERMSIG(wait_status))};
  if (auto words = last_words(lines); !words.empty()) return {{}, "srun: " + words};
  return {{}, fmt::format("srun ended with exit code {} and no word", WEXITSTATUS(wait_status))};
}

std::string explain_srun_waiting(const std::vector<SrunLine>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->task) continue;
    if (auto advice = advice_on(kOfSrun, line->text); !advice.empty()) return advice;
  }
  return "srun was started, and the agent has not connected";
}

}  // namespace hvdrun
