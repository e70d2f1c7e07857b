// What a first word without an option before it may mean that is neither a command of hvdrun nor a
// program to start on all slots. Pure functions, for any thread.
#pragma once

#include "base/result.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

// Returns the names of hvdrun's commands: "sbatch". "run" is not one of them, because a word after
// it is always a program.
std::span<const std::string_view> command_names();

// Refuses programs of which one copy per slot makes no sense, such as squeue and top. The error
// (kExitUsage) says how to start one all the same.
Result<void> check_first_word(std::string_view word);

// Refuses programs whose names are what other tools call a command of hvdrun, such as kill and ps.
// The error (kExitUsage) says what to type: "hvdrun cancel 12" for {"kill", "12"}. Call it for a
// program that exists; hint_for_first_word() is for one that does not.
Result<void> check_meant_command(const std::vector<std::string>& command);

// Returns what to type instead of a first word that is neither a command nor a program, to follow
// an error: "; did you mean hvdrun jobs?". Empty if nothing is like it. Commands of hvdrun and
// SLURM are named only if the word may be one.
std::string hint_for_first_word(const std::vector<std::string>& command, bool may_be_command);

}  // namespace hvdrun::cli
