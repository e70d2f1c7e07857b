// horovodrun's options that hvdrun does not have, known by name so that none is silently ignored.
//
// The rule: what only tunes Horovod's own speed, talk or way to other hosts is accepted with a
// note; what promises a host, a place on it or another number of ranks is refused.
// Source: horovodrun 0.28.1, horovod/runner/launch.py.
#pragma once

#include "base/result.hpp"

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hvdrun::cli {

struct HorovodOption {
  std::array<std::string_view, 2> spellings;  // as typed; the second may be empty
  bool takes_value = false;
  bool accepted = false;  // without effect
  // Accepted: why it makes no difference. Refused: why, and what to use in its place.
  std::string_view reason;
};

std::span<const HorovodOption> horovod_options();

// The option that is typed so, or null.
const HorovodOption* find_horovod_option(std::string_view spelling);

// "--mpi-args is an option of horovodrun that hvdrun does not have: hvdrun calls no mpirun; …".
// `named`: the option as it was typed, or the key of a config file.
std::string refusal_of(const HorovodOption& option, const std::string& named);

// The Python module `horovod` that is hvd (--horovod), and where it is.

// Folders for PYTHONPATH.
struct PythonFolders {
  std::filesystem::path horovod;  // has the module horovod
  std::filesystem::path hvd;      // has the package hvd; empty where Python has it by itself
};

// In `share` (own_share_folder()), where the build and the installation put them. pip puts hvd
// among Python's own packages. Error (kExitLauncher): horovod is not there.
Result<PythonFolders> find_horovod_module(const std::filesystem::path& share);

// The same for this hvdrun.
Result<PythonFolders> find_horovod_module();

}  // namespace hvdrun::cli
