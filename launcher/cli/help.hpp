// --help and --version.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun::cli {

// All options from the table, group by group, at most 80 columns wide.
std::string help_text();

// Of `hvdrun sbatch` or `hvdrun salloc`: their own options.
std::string batch_help_text(std::string_view command);

std::string version_text();

}  // namespace hvdrun::cli
