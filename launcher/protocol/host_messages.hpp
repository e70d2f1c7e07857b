// What an agent reports of its host, as a part of a message. Pure functions.
#pragma once

#include "model/host_facts.hpp"

#include <nlohmann/json_fwd.hpp>

namespace hvdrun {

nlohmann::json host_facts_json(const HostFacts& facts);

// Throws nlohmann::json::exception if the JSON is no such part.
HostFacts host_facts_of(const nlohmann::json& json);

}  // namespace hvdrun
