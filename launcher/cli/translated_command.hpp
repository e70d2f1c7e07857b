// Translates the command line of another launcher into hvdrun's, for the message that refuses it.
// A pure function, for any thread. It uses the tables of options, and cannot fail: what has no
// translation is named.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {

struct TranslatedCommand {
  std::string options;     // of hvdrun: "-np 2 -H a:2"
  std::string program;     // with its arguments: "./a"
  std::string left_out;    // "--mca (use …)" or "--rdzv-id and --tee"; empty: nothing
  bool has_count = false;  // the words say how many ranks
  bool has_hosts = false;  // and where
};

// Where the line is to be typed.
struct TypedPlace {
  bool finds_hosts = false;  // SLURM gives the hosts, so the line names none
  bool has_hosts = false;    // the line has them already
  bool has_count = false;    // and a number of ranks or slots
  bool is_batch = false;     // it has the options of sbatch and salloc, too
  bool in_script = false;    // the words are a script's, in which "$NAME" is a variable
};

// Translates the words that follow the launcher's name (or `-m MODULE`). `launcher` is the one
// whose options they are: "torchrun", "accelerate launch", "deepspeed", "composer", "lightning",
// "horovodrun", "mpirun", "mpiexec", "srun", "jsrun", "aprun", "ibrun", "flux" or "pbsdsh". A
// program that the words do not show for certain is called "program".
TranslatedCommand translated_command(std::string_view launcher, std::span<const std::string> words,
                                     const TypedPlace& place = {});

}  // namespace hvdrun::cli
