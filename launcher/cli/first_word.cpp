#include "cli/first_word.hpp"

#include "common/shell_words.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <vector>

namespace hvdrun::cli {
namespace {

constexpr std::string_view kPython = "python3";

constexpr std::string_view kCommands[] = {"cancel", "follow", "help",      "jobs", "logs", "salloc",
                                          "sbatch", "scale",  "templates", "top",  "why"};

struct Word {
  std::string_view word;
  std::string_view instead;
};

// Programs that show or change the cluster or this machine.
constexpr Word kAlone[] = {
    {"squeue", "squeue or hvdrun jobs"},
    {"scancel", "scancel or hvdrun cancel"},
    {"sinfo", "sinfo"},
    {"sacct", "sacct"},
    {"scontrol", "scontrol"},
    {"htop", "htop"},
    {"ssh", "ssh"},
    {"scp", "scp"},
    {"sftp", "sftp"},
    {"rsync", "rsync"},
};

// Words of other tools for what a command of hvdrun does.
constexpr Word kMeanings[] = {
    {"status", "hvdrun jobs"},
    {"queue", "hvdrun jobs"},
    {"ps", "hvdrun jobs"},
    {"list", "hvdrun jobs"},
    {"log", "hvdrun logs"},
    {"tail", "hvdrun logs"},
    {"attach", "hvdrun logs"},
    {"submit", "hvdrun sbatch"},
    {"batch", "hvdrun sbatch"},
    {"alloc", "hvdrun salloc"},
    {"stop", "hvdrun cancel"},
    {"kill", "hvdrun cancel"},
    {"template", "hvdrun templates"},
    {"launch", "hvdrun -np N program"},
    {"start", "hvdrun -np N program"},
    {"exec", "hvdrun -np N program"},
    {"delete", "hvdrun cancel"},
    {"get", "hvdrun jobs"},
    {"describe", "hvdrun top"},
    {"monitor", "hvdrun top"},
    {"version", "hvdrun --version"},
    {"info", "hvdrun --check-build"},
    {"config", "hvdrun help config"},
    {"env", "hvdrun --print-env"},
    {"doctor", "hvdrun --check-build, or python3 -m hvd"},
    {"check", "hvdrun --check-build"},
    {"hold", "scontrol hold"},
    {"release", "scontrol release"},
    {"requeue", "scontrol requeue"},
    {"suspend", "scontrol suspend"},
    {"resume", "scontrol resume"},
    {"update", "scontrol update"},
    {"nodes", "sinfo"},
    {"partitions", "sinfo"},
    {"history", "sacct"},
    {"interactive", "hvdrun salloc"},
    {"shell", "hvdrun salloc"},
    {"allocate", "hvdrun salloc"},
};

// Of these words, those that are programs of many machines: kill(1) would take a job's number for a
// process's. They are refused, and the message names the command.
constexpr Word kMeantFirst[] = {
    {"kill", "hvdrun cancel"},  {"killall", "hvdrun cancel"}, {"pkill", "hvdrun cancel"},
    {"stop", "hvdrun cancel"},  {"delete", "hvdrun cancel"},  {"bkill", "hvdrun cancel"},
    {"qdel", "hvdrun cancel"},  {"ps", "hvdrun jobs"},        {"ls", "hvdrun jobs"},
    {"qhold", "scontrol hold"}, {"status", "hvdrun jobs"},    {"queue", "hvdrun jobs"},
    {"qstat", "hvdrun jobs"},   {"bjobs", "hvdrun jobs"},     {"watch", "hvdrun follow"},
    {"wait", "hvdrun follow"},  {"tail", "hvdrun logs -f"},   {"attach", "hvdrun logs"},
    {"batch", "hvdrun sbatch"}, {"submit", "hvdrun sbatch"},  {"init", "hvdrun help first-run"},
};

// Words that only a shell knows.
constexpr std::string_view kOfShells[] = {"cd",  "export", "source", "alias",
                                          "set", "ulimit", "module", "."};
// "–" and "—", which editors of text make of "-".
constexpr std::string_view kLongDashes[] = {"\u2013", "\u2014"};

// Returns what the words say of jobs, to follow a command that takes their numbers: " 12 13_4".
std::string jobs_for(std::string_view meant, std::span<const std::string> words) {
  const bool takes_jobs =
      meant == "hvdrun cancel" || meant == "hvdrun follow" || meant.starts_with("scontrol ");
  std::string jobs;
  for (const auto& word : words)
    if (takes_jobs && !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0)
      jobs += " " + quote_for_shell(word);
  return jobs;
}

std::string_view find(std::span<const Word> words, std::string_view word) {
  const auto at = std::find_if(words.begin(), words.end(),
                               [word](const Word& known) { return known.word == word; });
  return at == words.end() ? std::string_view() : at->instead;
}

}  // namespace

std::span<const std::string_view> command_names() {
  return kCommands;
}

Result<void> check_first_word(std::string_view word) {
  const auto instead = find(kAlone, word);
  if (instead.empty()) return {};
  const std::string name(word);
  return fail(name + " is a program of its own: type " + std::string(instead) + "; hvdrun run " +
                  name + " … starts it once on each slot",
              kExitUsage);
}

Result<void> check_meant_command(const std::vector<std::string>& command) {
  const auto meant = find(kMeantFirst, command.front());
  if (meant.empty()) return {};
  return fail(command.front() + " is no command of hvdrun: type " + std::string(meant) +
                  jobs_for(meant, std::span(command).subspan(1)) + "; hvdrun run " +
                  command.front() + " … starts the program of that name on each slot",
              kExitUsage);
}

std::string hint_for_first_word(const std::vector<std::string>& command, bool may_be_command) {
  const std::string_view word = command.front();
  for (const auto dash : kLongDashes)
    if (word.starts_with(dash))
      return "; its first character is a long dash: type -" + std::string(word.substr(dash.size()));
  if (word == "conda")
    return command.size() > 1 && command[1] == "run"
               ? "; conda is a function of your shell: type \"$CONDA_EXE\" run …"
               : "; conda is a function of your shell: activate before hvdrun, or type "
                 "\"$CONDA_EXE\" run -n NAME PROGRAM";
  if (std::ranges::count(kOfShells, word) > 0)
    return "; " + std::string(word) + " is a word of the shell: bash -c '" + std::string(word) +
           " … && exec PROGRAM'";
  std::string meant(may_be_command ? find(kMeanings, word) : "");
  meant += jobs_for(meant, std::span(command).subspan(1));
  if (meant.empty()) {
    std::vector<std::string_view> names;
    if (!word.starts_with("python")) names.push_back(kPython);  // find_program() has that answer
    if (may_be_command) names.insert(names.end(), std::begin(kCommands), std::end(kCommands));
    const auto nearest = nearest_name(word, names);
    if (!nearest.empty()) meant = (nearest == kPython ? "" : "hvdrun ") + std::string(nearest);
  }
  return meant.empty() ? std::string() : "; did you mean " + meant + "?";
}

}  // namespace hvdrun::cli
