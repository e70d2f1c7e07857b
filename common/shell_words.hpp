// Words as a shell reads them: for batch scripts, and for the commands in messages, which people
// paste. Pure functions, for any thread. They cannot fail.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace common {

// Returns the value as one word of a shell command (bash(1), QUOTING): unchanged where that is
// safe, otherwise in single quotes. A value with control characters is written as $'…', so that it
// stays on its line.
std::string quote_for_shell(std::string_view value);

// Returns the same for a word of a script in which "$NAME" and "$(…)" are to keep their meaning: in
// double quotes if it has one.
std::string quote_with_variables(std::string_view value);

// Returns the words as a command line, with a blank between them.
std::string shell_line(std::span<const std::string> words);

}  // namespace common
