// Whether a list has a value. Pure functions, for any thread, that cannot fail.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace hvdrun {

// Returns whether the value is one of those in the list.
bool is_one_of(const auto& value, const auto& list) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

inline bool is_one_of(std::string_view value, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace hvdrun
