// The completions of zsh and fish, made from the option tables. The files in completions/ hold
// these texts; HVD_WRITE_COMPLETIONS=1 makes the test write them. Pure functions.
#pragma once

#include <string>

namespace hvdrun::cli {

std::string zsh_completion();
std::string fish_completion();

}  // namespace hvdrun::cli
