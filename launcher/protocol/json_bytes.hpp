// Text of any bytes as CBOR byte strings: environment values, paths and names need not be UTF-8.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvdrun {

inline nlohmann::json bytes(const std::string& text) {
  return nlohmann::json::binary(nlohmann::json::binary_t::container_type(text.begin(), text.end()));
}

// Throws nlohmann::json::exception if the JSON is no byte string.
inline std::string text_of(const nlohmann::json& json) {
  const auto& binary = json.get_binary();
  return {binary.begin(), binary.end()};
}

inline nlohmann::json bytes_list(const std::vector<std::string>& list) {
  auto json = nlohmann::json::array();
  for (const auto& item : list) json.push_back(bytes(item));
  return json;
}

// Throws nlohmann::json::exception if an item is no byte string.
inline std::vector<std::string> text_list(const nlohmann::json& json) {
  std::vector<std::string> list;
  for (const auto& item : json) list.push_back(text_of(item));
  return list;
}

}  // namespace hvdrun
