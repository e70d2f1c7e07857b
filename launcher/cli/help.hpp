// --help and --version.
#pragma once

#include <string>

namespace hvdrun::cli {

// All options from the table, group by group, at most 80 columns wide.
std::string help_text();

std::string version_text();

}  // namespace hvdrun::cli
