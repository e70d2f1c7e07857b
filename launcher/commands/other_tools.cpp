#include "commands/other_tools.hpp"

#include "common/shell_words.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace hvdrun {
namespace {

struct OtherTool {
  std::string_view command;  // of hvdrun
  std::string_view name;
  std::string_view options;  // each between blanks
  std::string_view instead;  // what to type: {args} are all the user's words
};

// Sources: squeue(1), scancel(1) and sacct(1) of SLURM 22.05; top(1) and htop(1); tail(1);
// journalctl(1); docker-logs(1); kubectl logs --help; py-spy dump --help; hyperfine(1).
constexpr OtherTool kOtherTools[] = {
    {"hvdrun jobs", "SLURM's squeue",
     " -A --account --array-unique --clusters --federation -h -i --iterate -j --jobs -l --long "
     "-L --licenses -M -n --name --noconvert -o --format -O --Format -p --partition -P --priority "
     "-q --qos -r --array -R --reservation -s --steps -S --sort --start -t --states -v --verbose "
     "-w --nodelist --only-job-state --noheader ",
     "squeue --me {args}"},
    {"hvdrun jobs", "SLURM's sacct",
     " -b --brief -D --duplicates -E --endtime -N -s --state -S --starttime -X --allocations ",
     "sacct {args}"},
    {"hvdrun jobs", "kubectl", " --watch --follow -f ", "watch hvdrun jobs, or hvdrun follow JOB"},
    {"hvdrun jobs", "kubectl", " --output ", "hvdrun jobs --json"},
    {"hvdrun cancel", "SLURM's scancel",
     " -A --account -b --batch --ctld -c --cron -f --full -H --hurry -i --interactive -M "
     "--clusters -n --name -p --partition -q --qos -Q --quiet -R --reservation -s --signal "
     "-t --state -u --user -v --verbose -w --nodelist --wckey ",
     "scancel {args}"},
    {"hvdrun cancel", "kill", " -9 -KILL -SIGKILL --force ",
     "hvdrun cancel JOB stops a job, and SLURM kills what is left of it after a while"},
    {"hvdrun top", "top", " -b --batch --batch-mode -n --iterations ", "hvdrun top --once"},
    {"hvdrun top", "top", " -d --delay --interval --refresh ",
     "watch -n SECONDS hvdrun top --once"},
    {"hvdrun top", "top", " -o --sort-override --sort-key ", "hvdrun top --sort KEY"},
    {"hvdrun top", "top", " -p --pid ", "hvdrun top JOB"},
    {"hvdrun top", "top", " -u -U --user --filter-only-euser ",
     "hvdrun top shows your own jobs only"},
    {"hvdrun logs", "kubectl", " --tail ", "hvdrun logs -n LINES"},
    {"hvdrun logs", "kubectl",
     " --since --since-time --until -S -U -t --timestamps --prefix --limit-bytes ",
     "hvdrun logs knows no times: -n LINES says how many of each rank"},
    {"hvdrun logs", "kubectl", " -c --container --all-containers -l --selector ",
     "hvdrun logs --rank RANKS"},
    {"hvdrun logs", "kubectl", " -p --previous ",
     "hvdrun logs knows running jobs; of one that has ended: hvdrun follow JOB"},
    {"hvdrun logs", "tail", " -F --retry ", "hvdrun logs -f"},
    {"hvdrun logs", "tail", " -c --bytes ", "hvdrun logs -n LINES"},
    {"hvdrun follow", "tail", " -f -F --follow ", "hvdrun follow JOB needs none: it follows"},
    {"hvdrun follow", "kubectl", " --tail --since ",
     "hvdrun follow shows all; the last lines of each rank: hvdrun logs -n LINES JOB"},
    {"hvdrun follow", "tail", " -n --lines -c --bytes ",
     "hvdrun follow shows all; the last lines of each rank: hvdrun logs -n LINES JOB"},
    {"hvdrun follow", "SLURM's squeue", " -j --job --jobs --jobid ", "hvdrun follow JOB"},
    {"hvdrun why", "py-spy", " -p --pid ", "hvdrun why JOB"},
    {"hvdrun scale", "hyperfine", " -r --runs -m --min-runs -M --max-runs ",
     "hvdrun scale --repeat N"},
    {"hvdrun scale", "hyperfine", " -w --warmup ",
     "hvdrun scale leaves out the first epoch of a run; --drop-epochs N leaves out N"},
    {"hvdrun scale", "hyperfine",
     " --export-json --export-csv --export-markdown --export-orgmode --export-asciidoc ",
     "hvdrun scale --report DIR"},
    {"hvdrun scale", "hyperfine", " -L --parameter-list -P --parameter-scan ",
     "hvdrun scale -np N,N,…; {{np}} in the program's arguments is the number of a run"},
    {"hvdrun templates", "ls", " -l -a --list --all ", "hvdrun templates lists all"},
};

struct OptionsOfCommand {
  std::string_view command;
  std::string_view options;
};

constexpr OptionsOfCommand kOptionsOfCommands[] = {
    {"hvdrun jobs", " --here --me "},
    {"hvdrun follow", " --no-output "},
    {"hvdrun cancel", " --all --me "},
    {"hvdrun top", " --once --sort "},
    {"hvdrun logs", " --follow --lines --rank "},
    {"hvdrun templates", " --template-path "},
    {"hvdrun scale",
     " --devices --repeat --drop-epochs --metric --epoch-time --loss --accuracy "
     "--show-output "},
};

}  // namespace

std::optional<OtherToolsOption> option_of_other_tool(std::string_view command,
                                                     std::string_view word,
                                                     const std::vector<std::string>& args) {
  const auto find = [&](std::string_view option) {
    return std::find_if(std::begin(kOtherTools), std::end(kOtherTools), [&](const auto& tool) {
      return tool.command == command && option.find(' ') == std::string_view::npos &&
             tool.options.find(fmt::format(" {} ", option)) != std::string_view::npos;
    });
  };
  auto option = word.substr(0, word.find('='));
  auto found = find(option);
  const bool has_number =
      word.size() > 2 && !word.starts_with("--") && word[2] >= '0' && word[2] <= '9';
  if (found == std::end(kOtherTools) && has_number) {  // "-n5"
    option = word.substr(0, 2);
    found = find(option);
  }
  if (found == std::end(kOtherTools)) return std::nullopt;
  return OtherToolsOption{
      option, found->name,
      fmt::format(fmt::runtime(found->instead), fmt::arg("args", common::shell_line(args)))};
}

std::optional<std::string_view> other_command_with(std::string_view option,
                                                   std::string_view command) {
  const auto word = fmt::format(" {} ", option.substr(0, option.find('=')));
  for (const auto& own : kOptionsOfCommands)
    if (own.command != command && own.options.find(word) != std::string_view::npos)
      return own.command;
  return std::nullopt;
}

}  // namespace hvdrun
