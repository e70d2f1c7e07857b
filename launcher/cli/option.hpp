// What an option of hvdrun is: its spellings, the values that it takes, its help, and the function
// that stores a value. Plain values, for any thread: the tables of options are constants. Only the
// function that stores a value can fail.
#pragma once

#include "base/result.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"

#include <array>
#include <string_view>

namespace hvdrun::cli {

// The value that follows an option on the command line, and the JSON values that a config file may
// have for it.
enum class ValueKind {
  flag,         // none;                    true, false. "--no-NAME" turns it off.
  count,        // none, may be repeated;   a whole number, true, false
  number,       // a whole number;          a number
  decimal,      // a number;                a number
  duration,     // a time;                  a number of seconds or a string such as "500ms"
  word,         // text;                    a string
  word_number,  // text or a number;        a string or a number
  list,         // "a,b";                   a string, a number, or an array of those
  environment,  // NAME or NAME=VALUE, may be repeated; an object, or an array of strings
  config_file,  // a file of settings;      (not in a config file)
  action,       // none: hvdrun prints something and ends; (not in a config file)
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

// Returns the group's heading in --help.
std::string_view group_title(OptionGroup group);

struct Option {
  std::string_view name;  // without dashes: its key in config files and in --explain
  // As typed, with dashes. Messages use the first. Unused ones are empty.
  std::array<std::string_view, 3> spellings;
  ValueKind kind = ValueKind::word;
  OptionGroup group = OptionGroup::information;
  std::string_view
      value_name;  // "N", "core|numa|socket|none|auto"; empty for an option without a value
  std::string_view default_value;
  std::string_view help;
  // Stores a value in the job ("true" or "false" for a flag, a number for a count). Errors are
  // phrases that follow the option's name. Null for actions, --config-file and batch options.
  Result<void> (*apply)(JobSpec&, std::string_view value) = nullptr;
  // The same for an option of sbatch and salloc.
  Result<void> (*apply_batch)(BatchSpec&, std::string_view value) = nullptr;
};

// Returns whether a value follows the option on the command line.
bool takes_value(const Option& option);

// Returns whether a config file may hold the option.
bool is_setting(const Option& option);

}  // namespace hvdrun::cli
