// Splits a command line into uses of options and the program with its arguments. A pure function,
// for any thread.
//
// It walks the words over the option tables itself instead of using CLI11. "-np" is not a name to
// CLI11, so something that knows which options take a value would have to walk the words before it.
// And with Horovod's options CLI11 needs 1.5 ms to learn 100 of them, a quarter of what a whole
// launch of one rank may take. This walk takes microseconds.
#pragma once

#include "base/result.hpp"
#include "cli/option_sets.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct ParsedOption {
  const Option* option = nullptr;
  std::string spelling;  // as it was typed, for messages: "-np"
  std::string value;     // "true" or "false" for a flag, "1" for a count
};

struct SplitWords {
  std::vector<ParsedOption> options;  // in order, without actions
  const Option* action = nullptr;     // --help, --version, --check-build or --explain, if any
  std::string action_word;            // as it was typed: "-h"
  std::vector<std::string> command;   // the program's name and its arguments, unchanged
  std::size_t program_at = 0;         // the index of the program's name in the words
  std::vector<std::string> notes;     // one line for each foreign option without effect
  bool says_run = false;              // "run" comes first
  bool is_program_explicit = false;   // "run", an option or "--" comes before the program
};

// Returns "; --report took ./train as its value", for an error about a missing program.
std::string taken_text(std::string_view option, std::string_view value);

// Returns the same if the last of the words is the value of an option, and no number; otherwise
// returns an empty text.
std::string taken_last(const std::vector<ParsedOption>& options,
                       const std::vector<std::string>& words);

// Splits the words after "hvdrun". Options end at "--" or at the first word that is not an option;
// the rest is the program's. --help, --version and --check-build end the walk: the words after them
// are not read. Options of other launchers are taken as foreign_options.hpp says. Errors: an
// unknown option, a missing value, a value where none is allowed, or several programs as for mpirun
// (": -np 1 ./b"). `has_scheduler`: the errors do not say how to name hosts.
Result<SplitWords> split_words(const std::vector<std::string>& args,
                               const OptionSet& options = run_options(),
                               bool has_scheduler = false);

// Returns the spelling by which the tables of hvdrun's and other launchers' options know a word
// that was typed: "--num-proc" for "-num_proc". Returns other words with their "_" as "-".
std::string long_spelling(std::string_view typed);

}  // namespace hvdrun::cli
