// Converts structs to and from JSON by a list of their fields, so that a field is written once:
//
//   constexpr auto fields_of(const PortsMessage*) {
//     return std::tuple(field("ports", &PortsMessage::ports));
//   }
//
// A struct becomes an object. Text becomes a byte string, because values of variables, paths and
// names need not be UTF-8. Without a value there is null; a time is in milliseconds.
//
// Pure functions. from_json() throws nlohmann::json::exception if the JSON has another form.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace hvdrun::wire {

using Json = nlohmann::json;

template <class Owner, class T>
struct Field {
  const char* name;
  T Owner::*member;
};

template <class Owner, class T>
constexpr Field<Owner, T> field(const char* name, T Owner::*member) {
  return {name, member};
}

template <class T>
concept HasFields = requires(const T* value) {
  fields_of(value);
};

template <class T>
concept IsScalar = std::is_arithmetic_v<T>;

template <class T>
concept IsEnum = std::is_enum_v<T>;

// All conversions are declared before the first definition: they call each other.
template <HasFields T>
Json to_json(const T& value);
template <IsScalar T>
Json to_json(const T& value);
template <IsEnum T>
Json to_json(const T& value);
inline Json to_json(const std::string& value);
inline Json to_json(const std::chrono::milliseconds& value);
template <class T>
Json to_json(const std::optional<T>& value);
template <class T>
Json to_json(const std::vector<T>& value);
template <class T, std::size_t size>
Json to_json(const T (&value)[size]);
template <class T, std::size_t size>
Json to_json(const std::array<T, size>& value);
template <class A, class B>
Json to_json(const std::pair<A, B>& value);
template <class A, class B>
Json to_json(const std::map<A, B>& value);

template <HasFields T>
void from_json(const Json& json, T& value);
template <IsScalar T>
void from_json(const Json& json, T& value);
template <IsEnum T>
void from_json(const Json& json, T& value);
inline void from_json(const Json& json, std::string& value);
inline void from_json(const Json& json, std::chrono::milliseconds& value);
template <class T>
void from_json(const Json& json, std::optional<T>& value);
template <class T>
void from_json(const Json& json, std::vector<T>& value);
template <class T, std::size_t size>
void from_json(const Json& json, T (&value)[size]);
template <class T, std::size_t size>
void from_json(const Json& json, std::array<T, size>& value);
template <class A, class B>
void from_json(const Json& json, std::pair<A, B>& value);
template <class A, class B>
void from_json(const Json& json, std::map<A, B>& value);

// Returns the items of a list as an array.
template <class List>
Json array_of(const List& list) {
  Json json = Json::array();
  for (const auto& item : list) json.push_back(to_json(item));
  return json;
}

template <HasFields T>
Json to_json(const T& value) {
  Json json = Json::object();
  std::apply([&](const auto&... each) { ((json[each.name] = to_json(value.*each.member)), ...); },
             fields_of(&value));
  return json;
}

template <IsScalar T>
Json to_json(const T& value) {
  return value;
}

template <IsEnum T>
Json to_json(const T& value) {
  return static_cast<std::underlying_type_t<T>>(value);
}

inline Json to_json(const std::string& value) {
  return Json::binary(Json::binary_t::container_type(value.begin(), value.end()));
}

inline Json to_json(const std::chrono::milliseconds& value) {
  return value.count();
}

template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json();
}

template <class T>
Json to_json(const std::vector<T>& value) {
  return array_of(value);
}

template <class T, std::size_t size>
Json to_json(const T (&value)[size]) {
  return array_of(value);
}

template <class T, std::size_t size>
Json to_json(const std::array<T, size>& value) {
  return array_of(value);
}

template <class A, class B>
Json to_json(const std::pair<A, B>& value) {
  return Json::array({to_json(value.first), to_json(value.second)});
}

template <class A, class B>
Json to_json(const std::map<A, B>& value) {
  return array_of(value);
}

template <HasFields T>
void from_json(const Json& json, T& value) {
  std::apply([&](const auto&... each) { (from_json(json.at(each.name), value.*each.member), ...); },
             fields_of(&value));
}

template <IsScalar T>
void from_json(const Json& json, T& value) {
  json.get_to(value);
}

template <IsEnum T>
void from_json(const Json& json, T& value) {
  value = static_cast<T>(json.get<std::underlying_type_t<T>>());
}

inline void from_json(const Json& json, std::string& value) {
  const auto& bytes = json.get_binary();
  value.assign(bytes.begin(), bytes.end());
}

inline void from_json(const Json& json, std::chrono::milliseconds& value) {
  value = std::chrono::milliseconds(json.get<std::int64_t>());
}

template <class T>
void from_json(const Json& json, std::optional<T>& value) {
  if (!json.is_null()) from_json(json, value.emplace());
}

template <class T>
void from_json(const Json& json, std::vector<T>& value) {
  for (const auto& item : json) from_json(item, value.emplace_back());
}

template <class T, std::size_t size>
void from_json(const Json& json, T (&value)[size]) {
  for (std::size_t i = 0; i < size; ++i) from_json(json.at(i), value[i]);
}

template <class T, std::size_t size>
void from_json(const Json& json, std::array<T, size>& value) {
  for (std::size_t i = 0; i < size; ++i) from_json(json.at(i), value[i]);
}

template <class A, class B>
void from_json(const Json& json, std::pair<A, B>& value) {
  from_json(json.at(0), value.first);
  from_json(json.at(1), value.second);
}

template <class A, class B>
void from_json(const Json& json, std::map<A, B>& value) {
  for (const auto& item : json) {
    std::pair<A, B> pair;
    from_json(item, pair);
    value.insert(std::move(pair));
  }
}

}  // namespace hvdrun::wire
