// The command line, cut into uses of options and the program with its arguments.
//
// A walk of its own over the two option tables, not CLI11: "-np" is no name to CLI11, so the words
// must be walked by somebody who knows which options take a value before it may see them; and with
// Horovod's options it needs 1.5 ms to learn 100 of them, a quarter of what a whole launch of one
// rank may take. The walk takes microseconds.
#pragma once

#include "base/result.hpp"
#include "cli/option_table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun::cli {

struct OptionUse {
  const Option* option = nullptr;
  std::string spelling;  // as it was typed, for messages: "-np"
  std::string value;     // "true" or "false" for a flag, "1" for a count
};

struct Words {
  std::vector<OptionUse> options;    // in order, actions left out
  const Option* action = nullptr;    // --help, --version, --check-build or --explain, if any
  std::vector<std::string> command;  // the program's name and its arguments, untouched
  std::vector<std::string> notes;    // one line for each of Horovod's options without effect
};

// Options end at "--" or at the first word that is none; all that follows is the program's.
// --help, --version and --check-build end the walk: what stands after them is not looked at.
// Errors: an unknown option, a value missing or too many.
Result<Words> split_words(const std::vector<std::string>& args,
                          const OptionSet& options = run_options());

}  // namespace hvdrun::cli
