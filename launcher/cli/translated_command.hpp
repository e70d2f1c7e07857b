// Translates the command line of another launcher into hvdrun's, for the message that refuses it.
// A pure function, for any thread. It uses the tables of options, and cannot fail: what has no
// translation is named.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {

struct TranslatedCommand {
  std::string line;      // what to type after "hvdrun ": "-np 2 -H a:2 ./a"
  std::string left_out;  // "--mca (use …)" or "--rdzv-id and --tee"; empty: nothing
};

// Translates the words that follow the launcher's name (or `-m MODULE`). `launcher` is "torchrun",
// "accelerate launch", "deepspeed", "horovodrun", "mpirun", "mpiexec" or "srun". `separator` comes
// before the program ("-- ", or nothing). A program that the words do not show for certain is
// called "program". `finds_hosts`: SLURM gives the hosts, so the line names none.
TranslatedCommand translated_command(std::string_view launcher, std::span<const std::string> words,
                                     std::string_view separator, bool finds_hosts = false);

}  // namespace hvdrun::cli
