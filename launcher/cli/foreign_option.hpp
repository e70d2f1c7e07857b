// An option of another launcher, and what hvdrun does with it. A plain value.
#pragma once

#include <array>
#include <string_view>

namespace hvdrun::cli {

struct ForeignOption {
  enum class Kind {
    same,      // means what hvdrun's option `text` means, which has a value too
    flag,      // means hvdrun's option and value in `text`: "--map-by=node"
    module,    // the program is a Python module: "-m pkg.train"
    accepted,  // has no effect
    refused,
  };
  // As typed; unused ones are empty. One that ends in "*" is a family of options.
  std::array<std::string_view, 8> spellings;
  std::string_view of;  // "horovodrun"
  Kind kind = Kind::refused;
  bool takes_value = false;
  // Accepted: why it makes no difference; empty if that needs no words. Refused: why, and what to
  // use instead.
  std::string_view text;
  bool batch_only = false;      // only for sbatch and salloc
  bool optional_value = false;  // a value may follow "="
  bool names_hosts = false;     // `text` says how to name hosts, which a SLURM job gives
};

}  // namespace hvdrun::cli
