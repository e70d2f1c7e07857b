// What an agent reports to the launcher of its host's GPUs, as a part of a message. Pure functions.
#pragma once

#include "model/report.hpp"

#include <nlohmann/json_fwd.hpp>

namespace hvdrun {

nlohmann::json gpu_record_json(const GpuRecord& record);

// Throws nlohmann::json::exception if the JSON is no such record.
GpuRecord gpu_record_of(const nlohmann::json& json);

}  // namespace hvdrun
