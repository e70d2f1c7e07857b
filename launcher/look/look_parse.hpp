// Reads a look from the JSON that look_json() writes. A pure function, for any thread.
#pragma once

#include "look/process_look.hpp"

#include <optional>
#include <string>

namespace hvdrun {

// Returns nullopt for a text that is no such JSON.
std::optional<ProcessLook> parse_look(const std::string& text);

}  // namespace hvdrun
