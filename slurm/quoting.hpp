// Quotes values for the three places of a batch script where they can be: a shell command (see also
// common/shell_words.hpp), a #SBATCH line and a comment. Pure functions, for any thread. They
// cannot fail: what a place cannot hold at all, fits_directive and is_expandable find first.
#pragma once

#include "common/shell_words.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

using common::quote_for_shell;

// In a job array, the place of the task's index in a word of the command.
inline constexpr std::string_view kIndexPlace = "{index}";

// Like quote_for_shell, but the shell expands $NAME and ${NAME} in the value. If such a variable is
// empty or unset, the script ends with an error that names it.
std::string quote_for_shell_expanding(std::string_view value);

// Like quote_for_shell, but the shell puts the index of a job array's task in the place of each
// {index}. Outside an array the script ends with an error there.
std::string quote_for_shell_with_index(std::string_view value);

// Returns whether each $ in the value begins a $NAME or ${NAME}.
bool is_expandable(std::string_view value);

// Returns one argument of a #SBATCH line. Of --name=value only the value is quoted.
//
// sbatch has a grammar of its own here, which sbatch(1) does not describe. A blank ends an argument
// and # ends the line. "…" and '…' keep both. A backslash takes the next character as it is, also
// inside quotes. No quoting can hold a line's end: see fits_directive.
std::string quote_for_directive(std::string_view argument);

// Returns whether a #SBATCH line can hold the value: it has no control characters.
bool fits_directive(std::string_view value);

// Returns the value for a comment, with a blank for each control character. So the comment ends
// only with its line.
std::string quote_for_comment(std::string_view value);

}  // namespace hvdrun
