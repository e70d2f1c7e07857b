// The texts of -h, --help and --version, made from the option tables. Pure functions, for any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun::cli {

// Returns the options that most people need, on one screen: at most 30 lines of 80 columns.
std::string short_help_text();

// Returns hvdrun's options, group by group, at most 80 columns wide.
std::string help_text();

// Returns the help of `hvdrun sbatch` or `hvdrun salloc`: the options that hvdrun itself does not
// have.
std::string batch_help_text(std::string_view command);

// Returns the version, and how this hvdrun was built: compiler, C library, libraries.
std::string version_text();

}  // namespace hvdrun::cli
