// Which options each command has, and how to find one. Constants and pure functions.
#pragma once

#include "cli/option.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// The tables of options that a command has.
using OptionSet = std::vector<std::span<const Option>>;

const OptionSet& run_options();    // hvdrun's own
const OptionSet& batch_options();  // those of sbatch and salloc, and hvdrun's own
const OptionSet& all_options();    // of all commands: what a config file may hold

// Returns the option with that spelling ("-np", "--num-proc"), or null.
const Option* find_option_by_spelling(std::string_view spelling,
                                      const OptionSet& options = run_options());

// Returns the option with that name ("num-proc"), or null.
const Option* find_option_by_name(std::string_view name, const OptionSet& options = run_options());

// Returns the option of a config file's key: its name, or one of its spellings with one or no dash
// before it, also with "_" for "-" ("num-proc", "np", "num_proc"). Returns null for any other.
const Option* find_setting(std::string_view key);

// Returns the names of all options that a config file may hold.
std::vector<std::string_view> setting_names();

}  // namespace hvdrun::cli
