// What a host offers, as a part of a message.
#pragma once

#include "model/allocation.hpp"

#include <nlohmann/json_fwd.hpp>

namespace hvdrun {

nlohmann::json inventory_json(const HostInventory& inventory);

// Throws nlohmann::json::exception where it is none.
HostInventory inventory_of(const nlohmann::json& json);

}  // namespace hvdrun
