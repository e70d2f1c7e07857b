// A table of words for a terminal.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

using TableRow = std::vector<std::string>;

// One line a row, the columns as wide as their widest word and two blanks apart; no blanks at the
// ends. All rows have as many columns as the first.
std::vector<std::string> table_lines(const std::vector<TableRow>& rows);

}  // namespace hvdrun
