// Text from outside, made fit to stand inside a message of ours: what a user typed, what ranks and
// other hosts say.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// Control characters as \n, \t or \x1b; all of it, without quotes: for a table's cell.
std::string escape(std::string_view text);

// Nothing that a terminal would obey: control characters (C0 but tab, DEL, C1) as \x1b. All other
// bytes stay, newlines among them.
std::string printable(std::string_view text);

// In double quotes; control characters as \n, \t or \x1b; a text past 1024 bytes is cut ("…").
// Other bytes stay as they are: the terminal decides what a name in its encoding looks like.
std::string quote(std::string_view text);

// As it is where that can be read as one word, else as quote().
std::string quote_if_needed(std::string_view text);

}  // namespace hvdrun
