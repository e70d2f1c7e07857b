#include "cli/help.hpp"

#include "cli/batch_options.hpp"
#include "cli/option_table.hpp"
#include "common/text.hpp"
#include "model/host_request.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 28;  // where the descriptions start

constexpr std::string_view kIntroduction =
    R"(usage: hvdrun -np N [options] [--] program [arguments]
       hvdrun run [options] [--] program [arguments]

Starts N ranks of a program, one for each GPU, and carries their output. When
one fails, it stops all of them and says which failed first, and why.

  hvdrun -np 4 python3 train.py       four ranks on this machine
  hvdrun --dry-run -np 4 ./train      only print which rank goes where

With SLURM (hvdrun WORD --help says more of each):
  hvdrun sbatch      a batch script from a template; --follow submits it
  hvdrun salloc      an allocation, and a program or a shell over it
  hvdrun jobs        your jobs in the queue; also follow JOB, cancel JOB
  hvdrun templates   the templates of batch scripts
  hvdrun scale       a program at several numbers of ranks, compared
)";

constexpr std::string_view kClosing = R"(
A TIME is in seconds, decimals allowed, or has a unit: 500ms, 30s, 2m.
--no-NAME takes an option without value back that a config file has set.
Options end at the program's name; all that follows belongs to the program.
horovodrun's other options are known: those that make no difference here are
accepted with a note, the others are refused. horovodrun, a link to hvdrun, is
hvdrun --horovod without the subcommands.

Config files (JSON), each overriding the ones before it, the command line last:
/etc/hvdrun/config.json, ~/.config/hvdrun/config.json, $HVDRUN_CONFIG,
--config-file. See hvdrun(1) for more, for exit codes as well.
)";

constexpr std::string_view kSbatchIntroduction =
    R"(usage: hvdrun sbatch -np N [options] [--] program [arguments]

Writes the batch script that runs the program on N ranks, and prints it; with
--submit, --wait or --follow it hands it to SLURM.

  hvdrun sbatch -np 16 --time 2:00:00 -- python3 train.py > job.sh
  hvdrun sbatch -np 16 --time 2:00:00 --follow -- python3 train.py
)";

constexpr std::string_view kSallocIntroduction =
    R"(usage: hvdrun salloc -np N [options] [[--] program [arguments]]

Gets an allocation for N ranks from SLURM, runs the program over it, and gives
it back. Without a program it opens a shell, in which hvdrun uses all of it.
)";

constexpr std::string_view kBatchClosing = R"(
hvdrun's own options (hvdrun --help) count here, too: they go to the hvdrun that
starts the ranks. All of these may stand in config files: see docs/config.md.
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

// Appends words from the column on, breaking lines before they pass the width.
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

void append_options(std::string& out, std::span<const Option> table) {
  std::optional<OptionGroup> group;
  for (const auto& option : table) {
    if (group != option.group) {
      group = option.group;
      out += "\n" + std::string(group_title(option.group)) + ":\n";
    }
    append_option(out, option);
  }
}

std::string state_of(const ConfigSource& source) {
  if (source.file.empty()) return "not set";
  return source.file.string() + (source.was_read ? "" : " (not there)");
}

void append_sources(std::string& out, const std::vector<ConfigSource>& sources) {
  out += "Settings come from these places; each overrides the ones before it:\n";
  int number = 0;
  out += fmt::format("  {}. {:<14} {}\n", ++number, "default", "what hvdrun does by itself");
  for (const auto& source : sources)
    out += fmt::format("  {}. {:<14} {}\n", ++number, source.title, state_of(source));
  out += fmt::format("  {}. {}\n\n", ++number, "command line");
}

// A list of many hosts, folded: "n[1-64]:8".
std::string fold_list(std::string_view value) {
  constexpr std::size_t kLongestInFull = 48;
  if (value.size() <= kLongestInFull) return quote_if_needed(value);
  const auto requests = parse_host_requests(value, "");
  return quote_if_needed(requests ? fold_host_requests(*requests) : value);
}

std::string value_of(const Setting& setting) {
  const auto name = setting.option->name;
  if (name == "hosts" || name == "include" || name == "exclude") return fold_list(setting.value);
  if (setting.option->kind != ValueKind::environment) return quote_if_needed(setting.value);
  const auto equals = setting.value.find('=');
  return equals == std::string::npos ? "(passed on)"
                                     : quote_if_needed(setting.value.substr(equals + 1));
}

struct Row {
  std::string name;
  std::string value;
  std::string source;
};

// One name's settings, from the first to the one that counts.
void append_setting(std::vector<Row>& rows, const std::vector<const Setting*>& history) {
  const auto& last = *history.back();
  rows.push_back({override_key(last), value_of(last), last.source});
  for (auto earlier = history.rbegin() + 1; earlier != history.rend(); ++earlier)
    rows.push_back({"  overrides", value_of(**earlier), (*earlier)->source});
}

std::vector<std::vector<const Setting*>> histories_of(const Option& option,
                                                      const std::vector<Setting>& settings) {
  std::vector<std::vector<const Setting*>> histories;
  for (const auto& setting : settings) {
    if (setting.option != &option) continue;
    const auto known = std::find_if(histories.begin(), histories.end(), [&](const auto& history) {
      return override_key(*history.front()) == override_key(setting);
    });
    if (known != histories.end()) {
      known->push_back(&setting);
    } else {
      histories.push_back({&setting});
    }
  }
  return histories;
}

void append_option(std::vector<Row>& rows, const Option& option,
                   const std::vector<Setting>& settings) {
  if (!is_setting(option)) return;
  const auto histories = histories_of(option, settings);
  for (const auto& history : histories) append_setting(rows, history);
  if (histories.empty() && !option.default_value.empty())
    rows.push_back({std::string(option.name), std::string(option.default_value), "default"});
}

// A value that is longer than this pushes only its own source to the right.
constexpr std::size_t kWidestValue = 40;

std::string aligned(const std::vector<Row>& rows) {
  std::size_t name_width = 0;
  std::size_t value_width = 0;
  for (const auto& row : rows) {
    name_width = std::max(name_width, row.name.size());
    if (row.value.size() <= kWidestValue) value_width = std::max(value_width, row.value.size());
  }
  std::string out;
  for (const auto& row : rows)
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", row.name, name_width, row.value, value_width,
                       row.source);
  return out;
}

}  // namespace

std::string help_text() {
  std::string out(kIntroduction);
  append_options(out, option_table());
  return out + std::string(kClosing);
}

std::string batch_help_text(std::string_view command) {
  std::string out(command == "salloc" ? kSallocIntroduction : kSbatchIntroduction);
  append_options(out, batch_option_table());
  return out + std::string(kBatchClosing);
}

std::string version_text() {
  return "hvdrun " HVDRUN_VERSION "\n";
}

std::string explain_text(const Explanation& explanation) {
  std::string out;
  append_sources(out, explanation.sources);
  std::vector<Row> rows;
  for (const auto table : explanation.options)
    for (const auto& option : table) append_option(rows, option, explanation.settings);
  out += aligned(rows);
  out += "\nprogram:";
  if (explanation.command.empty()) return out + " none given\n";
  for (const auto& word : explanation.command) out += " " + quote_if_needed(word);
  return out + "\n         " + explanation.program + "\n";
}

}  // namespace hvdrun::cli
