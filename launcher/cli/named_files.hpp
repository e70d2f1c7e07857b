// The files that a command line names beside its program: the script of Python or of a shell, and
// the program after `nice`, `env A=1` and the like. Without one of them every rank fails alike.
//
// For any thread; reads folders. It looks only for what the words say for certain: after an option
// that may have a value or not, in a container or after a shell's expansions it looks for nothing.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun::cli {

struct MissingFile {
  std::string name;
  bool is_script = false;
  std::string similar;  // a script that may be meant; empty: none
  Error error;          // kExitNotFound or kExitNotExecutable; it says all of this
};

// Returns the first of these files that is not here; nullopt if all are. The program itself, which
// find_program() looks for, is not among them. `spec`: has --wrap and the ranks' own variables.
// `folder`: that of the ranks.
std::optional<MissingFile> find_missing_file(const std::vector<std::string>& command,
                                             const JobSpec& spec, const Environment& environment,
                                             const std::filesystem::path& folder);

}  // namespace hvdrun::cli
