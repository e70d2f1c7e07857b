#include "channels/srun.hpp"

#include "base/event_loop.hpp"
#include "channels/remote_agent.hpp"
#include "channels/srun_agent.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kMostTasks = 1u << 20;  // more than any cluster has hosts

bool skip(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool skip_number(std::string_view& text, std::size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// "0-2,5"
bool parse_tasks(std::string_view text, std::vector<std::size_t>& tasks) {
  do {
    std::size_t first = 0;
    if (!skip_number(text, first)) return false;
    std::size_t last = first;
    if (skip(text, "-") && !skip_number(text, last)) return false;
    if (last < first || last - first >= kMostTasks || tasks.size() >= kMostTasks) return false;
    for (std::size_t task = first; task <= last; ++task) tasks.push_back(task);
  } while (skip(text, ","));
  return text.empty();
}

// How srun finds its cluster and proves who we are. All else that begins so is an option of a step
// (srun reads dozens) or describes the caller's own step.
constexpr std::array<std::string_view, 8> kKept{
    "SLURM_CONF",     "SLURM_CONF_SERVER", "SLURM_JOB_ID",          "SLURM_JWT",
    "SLURM_SACK_KEY", "SLURM_SACK_JWKS",   "SLURM_WORKING_CLUSTER", "SLURM_STEPMGR"};
constexpr std::array<std::string_view, 6> kDropped{"SLURM_", "SLURMD_", "SRUN_",
                                                   "PMI_",   "PMIX_",   "OMPI_COMM_WORLD_"};

bool travels(std::string_view name) {
  if (std::find(kKept.begin(), kKept.end(), name) != kKept.end()) return true;
  return std::none_of(kDropped.begin(), kDropped.end(),
                      [name](auto prefix) { return name.substr(0, prefix.size()) == prefix; });
}

// SLURM (22.05) refuses --gres to a step on one host alone that has more GPUs than the job's hosts
// have on average; --gpus, which counts over the whole step, it grants. Over several hosts it is
// --gpus that goes wrong: it is not spread evenly.
std::string gpu_option(int gpus_per_host, std::size_t hosts) {
  if (gpus_per_host == 0) return "--gres=none";
  return (hosts == 1 ? "--gpus=" : "--gres=gpu:") + std::to_string(gpus_per_host);
}

// A step with one task on each of exactly these hosts; its program is to follow.
std::vector<std::string> step_words(const SrunOptions& options,
                                    const std::vector<std::string>& hosts) {
  const auto count = std::to_string(hosts.size());
  return {
      options.program, "--jobid=" + options.job_id,
      "--job-name=hvdrun",  // of the step, for squeue -s
      "--nodelist=" + fmt::format("{}", fmt::join(hosts, ",")), "--nodes=" + count,
      "--ntasks=" + count, "--ntasks-per-node=1",
      // Beside whatever steps there are: without it a step inside a step waits for ever. Not
      // --exact, nor -c, which implies it: without them the step has all cores that the job has on
      // each host, however uneven those are.
      "--overlap",
      "--mem=0",  // all that the job has
      "--cpu-bind=none", "--mpi=none",
      // One agent's end is no reason to end the others, neither now nor after a while.
      "--kill-on-bad-exit=0", "--wait=0",
      "--chdir=/",  // there is one everywhere; the agent goes where the job wants it
      "--export=ALL",
      "--label",  // so that what an agent says can be told from what its neighbour says
  };
}

struct SrunHint {
  std::string_view words;  // in what srun, slurmstepd or the program's loader say
  std::string_view advice;
};

// Of srun itself; the first that fits.
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
             "-H with ssh works without srun"},
};

// Of one host: before or instead of an agent.
constexpr std::array kOfHost{
    SrunHint{"error while loading shared libraries", "a library of hvdrun is missing there"},
    SrunHint{"Exec format error", "hvdrun there is built for another kind of processor"},
    SrunHint{"--internal-agent", "hvdrun there is another version; install the same on both"},
    SrunHint{"Communication connection failure", "SLURM's slurmd does not answer there"},
    SrunHint{"Communication shutdown failure", "SLURM's slurmd does not answer there"},
    SrunHint{"Socket timed out", "SLURM's slurmd does not answer there"},
    SrunHint{"Unable to contact slurmd", "SLURM's slurmd does not answer there"},
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

void add(std::vector<SrunFailure>& troubles, const std::string& host, std::string message) {
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

std::optional<SrunFailure> host_trouble(const std::string& text) {
  for (const auto words : kHostAfter) {
    const auto at = text.find(words);
    if (at == std::string::npos) continue;
    const auto begin = at + words.size();
    const auto host = text.substr(begin, text.find_first_of(": ", begin) - begin);
    auto advice = advice_on(kOfHost, text);
    return SrunFailure{{host}, advice.empty() ? "SLURM cannot use it (" + text + ")" : advice};
  }
  return std::nullopt;
}

}  // namespace

SrunLine parse_srun_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  SrunLine parsed;
  if (skip(line, "srun: ")) {
    skip(line, "error: ") || skip(line, "fatal: ");
  } else {
    auto rest = line;
    while (skip(rest, " ")) {
    }
    std::size_t task = 0;
    if (skip_number(rest, task) && skip(rest, ": ")) {
      parsed.task = task;
      line = rest;
    }
  }
  parsed.text = line;
  return parsed;
}

std::optional<SrunTaskEnd> parse_task_end(std::string_view text) {
  const auto at = text.find(": task");
  if (at == std::string_view::npos) return std::nullopt;
  SrunTaskEnd end;
  end.hosts = text.substr(0, at);
  text.remove_prefix(at);
  if (!skip(text, ": tasks ") && !skip(text, ": task ")) return std::nullopt;
  const auto colon = text.find(": ");
  if (colon == std::string_view::npos || !parse_tasks(text.substr(0, colon), end.tasks))
    return std::nullopt;
  end.how = text.substr(colon + 2);
  return end;
}

std::vector<SrunLine> SrunReader::feed(std::string_view bytes) {
  std::vector<SrunLine> lines;
  for (const char byte : bytes) {
    if (byte == '\n') {
      lines.push_back(parse_srun_line(rest_));
      rest_.clear();
    } else if (rest_.size() < kLongestLine) {
      rest_ += byte;
    }
  }
  return lines;
}

std::vector<SrunLine> SrunReader::finish() {
  return rest_.empty() ? std::vector<SrunLine>() : feed("\n");
}

std::vector<std::string> srun_command(const SrunOptions& options,
                                      const std::vector<std::string>& hosts,
                                      std::optional<int> gpus_per_host) {
  auto words = step_words(options, hosts);
  if (gpus_per_host) words.push_back(gpu_option(*gpus_per_host, hosts.size()));
  words.push_back(options.agent_path);
  words.emplace_back(kAgentArgument);
  words.emplace_back(kSrunArgument);
  return words;
}

std::vector<std::string> srun_cleanup_command(const SrunOptions& options,
                                              const std::vector<std::string>& hosts,
                                              const std::string& job_id,
                                              const std::vector<std::size_t>& agents) {
  auto words = step_words(options, hosts);
  words.emplace_back("--gres=none");
  words.push_back(options.agent_path);
  for (auto& word : cleanup_arguments(job_id, agents)) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> srun_environment(const Environment& caller) {
  std::vector<std::string> block;
  for (const auto& [name, value] : caller)
    if (travels(name)) block.push_back(name + "=" + value);
  return block;
}

std::vector<SrunFailure> explain_task_ends(const std::vector<SrunTaskEnd>& ends,
                                           const std::vector<SrunLine>& lines,
                                           const std::string& agent_path) {
  std::vector<SrunFailure> troubles;
  for (const auto& end : ends)
    for (const auto task : end.tasks)
      add(troubles, end.hosts, explain_task(task, end.how, lines, agent_path));
  return troubles;
}

SrunFailure explain_srun_failure(int wait_status, const std::vector<SrunLine>& lines) {
  for (const auto& line : lines) {
    if (line.task) continue;
    if (auto trouble = host_trouble(line.text)) return *trouble;
    if (auto advice = advice_on(kOfSrun, line.text); !advice.empty()) return {{}, advice};
  }
  if (WIFSIGNALED(wait_status))
    return {{}, "srun was killed by " + signal_name(WTERMSIG(wait_status))};
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
