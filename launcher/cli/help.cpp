#include "cli/help.hpp"

#include "base/version.hpp"
#include "cli/batch_options.hpp"
#include "cli/option_sets.hpp"
#include "cli/option_table.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 28;  // where the descriptions start

constexpr std::string_view kIntroduction =
    R"(usage: hvdrun -np N [options] [--] program [arguments]
       hvdrun run [options] [--] program [arguments]

Starts N ranks of a program, one per GPU, and shows their output. If one fails,
hvdrun stops them all and reports which failed first, and why.

  hvdrun -np 4 python3 train.py       four ranks on this machine
  hvdrun --dry-run -np 4 ./train      only print which rank goes where

While a job runs, in another terminal:
  hvdrun why         why it hangs: which rank the others wait for, and where
  hvdrun top         what the ranks of a job do; also logs, its last lines
  hvdrun jobs        your jobs on this machine, and in SLURM's queue

With SLURM (see also hvdrun WORD --help):
  hvdrun sbatch      a batch script from a template; --follow submits it
  hvdrun salloc      an allocation, and a program or a shell in it
  hvdrun follow      the state and the output of a job; also cancel JOB
  hvdrun templates   the templates of batch scripts
  hvdrun scale       a program at several numbers of ranks, compared
)";

constexpr std::string_view kShortIntroduction =
    R"(usage: hvdrun -np N [options] [--] program [arguments]

  hvdrun -np 4 python3 train.py            four ranks on this machine
  hvdrun -H n1:4,n2:4 python3 train.py     eight ranks on two hosts

)";

// The options of the short help, each in few words.
struct ShortHelp {
  std::string_view name;
  std::string_view text;
  std::string_view value_name = {};  // empty: that of the option
};
constexpr ShortHelp kShortHelp[] = {
    {"num-proc", "number of ranks (default: one per GPU, or per core)"},
    {"hosts", "hosts, and how many ranks each may have"},
    {"hostfile", "read the hosts from FILE"},
    {"ranks-per-host", "number of ranks on each host"},
    {"oversubscribe", "allow more ranks than GPUs or cores"},
    {"bind-to", "bind to core, numa, socket or none (default: auto)", "WHAT"},
    {"cpus-per-rank", "number of cores for each rank"},
    {"dry-run", "print where each rank would run, and start nothing"},
    {"x", "set or pass on a variable; may be repeated"},
    {"for", "set what jax, tensorflow, … need"},
    {"horovod", "run a program written for Horovod"},
    {"min-np", "continue without lost ranks, as long as M are left"},
    {"max-restarts", "start a failed job again, at most R times"},
    {"stdin", "which rank reads the input (default: 0)"},
    {"label", "text before each line: none, rank, rank@host, …", "TEXT"},
    {"output-filename", "write each rank's output to files in DIR"},
    {"report", "write how each rank ended, its times and memory"},
    {"grace", "time from the first signal to SIGKILL (default: 5)"},
    {"config-file", "read settings from FILE"},
    {"explain", "print each setting and where it comes from"},
    {"verbose", "print more about what hvdrun does"},
};

constexpr std::string_view kShortClosing = R"(
SLURM: hvdrun sbatch, salloc, jobs, follow, cancel, templates; also scale.
hvdrun --help lists all options, hvdrun WORD --help those of a command.
hvdrun help topics lists the pages, such as hvdrun help errors.
)";

constexpr std::string_view kClosing = R"(
A TIME is in seconds, decimals allowed, or has a unit: 500ms, 30s, 2m.
--no-NAME turns off an option without value that a config file has turned on.
Options end at the program's name; all that follows is passed to the program.
horovodrun's other options are accepted with a note if they make no difference
here, and refused otherwise. horovodrun is a link to hvdrun: it is the same as
hvdrun --horovod, without the subcommands.

Config files (JSON); each overrides the ones before it, the command line all:
/etc/hvdrun/config.json, ~/.config/hvdrun/config.json, $HVDRUN_CONFIG,
--config-file. See hvdrun(1) for more, and for exit codes.
hvdrun help TOPIC shows a page of the documents: errors, exit-codes, slurm, jax,
environment, config, …; hvdrun help topics lists them.
)";

constexpr std::string_view kSbatchIntroduction =
    R"(usage: hvdrun sbatch -np N [options] [--] program [arguments]

Writes the batch script that runs the program on N ranks, and prints it. With
--submit, --wait or --follow it submits the script.

  hvdrun sbatch -np 16 --time 2:00:00 -- python3 train.py > job.sh
  hvdrun sbatch -np 16 --time 2:00:00 --follow -- python3 train.py
)";

constexpr std::string_view kSallocIntroduction =
    R"(usage: hvdrun salloc -np N [options] [[--] program [arguments]]

Gets an allocation for N ranks from SLURM, runs the program in it, and releases
it. Without a program it opens a shell, in which hvdrun uses all of it.
)";

constexpr std::string_view kBatchClosing = R"(
The options of hvdrun --help are allowed, too: they go to the hvdrun that starts
the ranks. All options may be in config files, see man hvdrun.
)";

std::string spellings_of(const Option& option) {
  std::string text;
  for (const auto spelling : option.spellings) {
    if (spelling.empty()) continue;
    if (!text.empty()) text += ", ";
    text += spelling;
  }
  if (takes_value(option)) text += " " + std::string(option.value_name);
  return text;
}

std::string description_of(const Option& option) {
  std::string text(option.help);
  const bool shows_default = takes_value(option) && !option.default_value.empty();
  if (shows_default) text += " (default: " + std::string(option.default_value) + ")";
  return text;
}

// Appends words from the column on, and breaks lines before they exceed the width.
void append_wrapped(std::string& out, std::string_view text, std::size_t column) {
  while (!text.empty()) {
    const auto space = text.find(' ');
    const auto word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (column > kIndent && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(kIndent, ' ');
      column = kIndent;
    } else if (column > kIndent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

void append_option(std::string& out, const Option& option) {
  const auto left = "  " + spellings_of(option);
  out += left;
  if (left.size() + 2 > kIndent) {
    out += '\n';
    out.append(kIndent, ' ');
  } else {
    out.append(kIndent - left.size(), ' ');
  }
  append_wrapped(out, description_of(option), kIndent);
}

void append_options(std::string& out, std::span<const Option> table,
                    bool (*is_left_out)(const Option&) = nullptr) {
  std::optional<OptionGroup> group;
  for (const auto& option : table) {
    if (is_left_out != nullptr && is_left_out(option)) continue;
    if (group != option.group) {
      group = option.group;
      out += "\n" + std::string(group_title(option.group)) + ":\n";
    }
    append_option(out, option);
  }
}

}  // namespace

std::string short_help_text() {
  std::string out(kShortIntroduction);
  for (const auto& [name, text, value_name] : kShortHelp) {
    const Option& option = *find_option_by_name(name);
    auto left = "  " + std::string(option.spellings.front());
    if (takes_value(option))
      left.append(" ").append(value_name.empty() ? option.value_name : value_name);
    left.resize(std::max(left.size() + 1, kIndent), ' ');
    out.append(left).append(text) += '\n';
  }
  return out + std::string(kShortClosing);
}

std::string help_text() {
  std::string out(kIntroduction);
  append_options(out, option_table());
  return out + std::string(kClosing);
}

std::string batch_help_text(std::string_view command) {
  std::string out(command == "salloc" ? kSallocIntroduction : kSbatchIntroduction);
  append_options(out, batch_option_table(), command == "salloc" ? is_of_scripts : nullptr);
  return out + std::string(kBatchClosing);
}

std::string version_text() {
  return fmt::format("hvdrun {}\nbuilt with {} for glibc {}.{}; libraries {}\n", kVersion,
                     kCompiler, __GLIBC__, __GLIBC_MINOR__, kLibraries);
}

}  // namespace hvdrun::cli
