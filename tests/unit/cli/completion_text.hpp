// Generates the completions of zsh and fish from the option tables. The files in completions/ hold
// these texts; with HVD_WRITE_COMPLETIONS=1 the test writes them. Pure functions.
#pragma once

#include <string>

namespace hvdrun::cli {

std::string zsh_completion();
std::string fish_completion();

}  // namespace hvdrun::cli
