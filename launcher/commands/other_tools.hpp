// Options of other tools that users give to hvdrun's subcommands: those of squeue, scancel, sacct,
// top, tail, kubectl, docker, journalctl and py-spy. Constants and a pure function, for any thread.
// Those that start programs have their own table (cli/foreign_options.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns "-n is an option of SLURM's squeue: squeue --me -n foo" for the word "-n" among the
// arguments of `command` ("hvdrun jobs"). Returns "" if no such tool has the option.
std::string answer_of_other_tool(std::string_view command, std::string_view word,
                                 const std::vector<std::string>& args);

}  // namespace hvdrun
