// Optional values as JSON: null if there is none. Pure functions.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

namespace hvdrun {

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// Throws nlohmann::json::exception if the JSON is neither null nor a T.
template <class T>
void read_optional(const nlohmann::json& json, std::optional<T>& value) {
  if (!json.is_null()) value = json.get<T>();
}

}  // namespace hvdrun
