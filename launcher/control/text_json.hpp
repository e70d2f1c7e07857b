// Converts structs to and from JSON text, by the lists of their fields (protocol/fields.hpp). Text
// is text here, for people and other programs, and what is missing or of another type keeps its
// default.
//
// Pure functions.
#pragma once

#include "protocol/fields.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace hvdrun::text_json {

using Json = nlohmann::json;

template <class T>
Json write(const T& value);

template <class T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json();
}

template <class T>
Json write(const std::vector<T>& values) {
  Json json = Json::array();
  for (const auto& value : values) json.push_back(write(value));
  return json;
}

template <class T>
Json write(const T& value) {
  if constexpr (json_fields::HasFields<T>) {
    Json json = Json::object();
    std::apply([&](const auto&... each) { ((json[each.name] = write(value.*each.member)), ...); },
               fields_of(&value));
    return json;
  } else {
    return value;
  }
}

template <class T>
void read(const Json& json, T& value);

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) read(json, value.emplace());
}

template <class T>
void read(const Json& json, std::vector<T>& values) {
  if (json.is_array())
    for (const auto& item : json) read(item, values.emplace_back());
}

template <class T>
void read(const Json& json, T& value) {
  if constexpr (json_fields::HasFields<T>) {
    const auto take = [&](const auto& field) {
      if (const auto found = json.find(field.name); found != json.end())
        read(*found, value.*field.member);
    };
    if (json.is_object())
      std::apply([&](const auto&... each) { (take(each), ...); }, fields_of(&value));
  } else if constexpr (std::is_same_v<T, bool>) {
    if (json.is_boolean()) value = json.get<bool>();
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (json.is_number()) value = json.get<T>();
  } else {
    if (json.is_string()) value = json.get<T>();
  }
}

}  // namespace hvdrun::text_json
