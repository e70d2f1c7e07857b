// Reads the config files of horovodrun, which are YAML. Pure functions, for any thread.
//
// A key outside of the sections is one of hvdrun: "num-proc: 4". horovodrun has none there.
//
// Only the part of YAML that these files use is read: sections, and below them lines of "key:
// value" with plain or quoted scalars, and comments. A parser of all YAML would be one more library
// to load at every start. Anything else is an error, so nothing is misread.
#pragma once

#include "base/result.hpp"
#include "cli/config_json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct HorovodConfig {
  std::vector<JsonEntry> entries;  // keys are names of horovodrun's options, or of hvdrun's
  std::vector<std::string> notes;  // keys that have no effect
};

// Returns whether a file of that name is one: it ends in .yaml or .yml.
bool is_horovod_config(std::string_view name);

// Reads the text of such a file. Errors: "NAME:line: …".
Result<HorovodConfig> read_horovod_config(std::string_view text, const std::string& name);

}  // namespace hvdrun::cli
