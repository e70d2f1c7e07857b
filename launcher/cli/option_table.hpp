// Every option of hvdrun, once: what drives the command line, --help, config files, --explain and
// the tests that hold the man page, the bash completion and docs/config.md to it.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// What follows an option on the command line, and which JSON it may be in a config file.
enum class ValueKind {
  flag,         // nothing;                 true, false. "--no-NAME" takes it back.
  count,        // nothing, may be repeated; a whole number, true, false
  number,       // a whole number;          a number
  decimal,      // a number;                a number
  duration,     // a time;                  a number of seconds or a string such as "500ms"
  word,         // text;                    a string
  word_number,  // text or a number;        a string or a number
  list,         // "a,b";                   a string, a number, or an array of those
  environment,  // NAME or NAME=VALUE, may be repeated; an object, or an array of strings
  config_file,  // a file of settings;      (not in a config file)
  action,       // nothing: hvdrun prints something and ends; (not in a config file)
};

enum class OptionGroup {
  placement,
  start,
  reach,
  collectives,
  output,
  stopping,
  information,
  // Of sbatch and salloc.
  resources,
  script,
  submission,
};

struct Option {
  std::string_view name;  // without dashes: its key in config files and in --explain
  // As typed, dashes included; the first is the one that messages use. Unused ones are empty.
  std::array<std::string_view, 3> spellings;
  ValueKind kind = ValueKind::word;
  OptionGroup group = OptionGroup::information;
  std::string_view value_name;  // "N", "core|numa|none|auto"; empty where no value follows
  std::string_view default_value;
  std::string_view help;
  // Reads a value ("true" or "false" for a flag, a number for a count) into the job. Errors are
  // phrases that follow the option's name. Null for actions, --config-file and batch options.
  Result<void> (*apply)(JobSpec&, std::string_view value) = nullptr;
  // The same for an option of sbatch and salloc.
  Result<void> (*apply_batch)(BatchSpec&, std::string_view value) = nullptr;
};

// The tables of options that a command has.
using OptionSet = std::vector<std::span<const Option>>;

// hvdrun's own options, in the order of --help: group by group.
std::span<const Option> option_table();

const OptionSet& run_options();    // option_table() alone
const OptionSet& batch_options();  // and those of sbatch and salloc (batch_options.hpp)
const OptionSet& all_options();    // of any command: what a config file may hold

std::string_view group_title(OptionGroup group);

// The option that is typed so ("-np", "--num-proc"), or null.
const Option* find_option_by_spelling(std::string_view spelling,
                                      const OptionSet& options = run_options());

// The option of that name ("num-proc"), or null.
const Option* find_option_by_name(std::string_view name, const OptionSet& options = run_options());

// Whether a value follows the option on the command line.
bool takes_value(const Option& option);

// Whether a config file may hold it.
bool is_setting(const Option& option);

}  // namespace hvdrun::cli
