// Stores and loads integers and fields as they are on the wire: little endian on every host. Pure
// functions and values.
#pragma once

#include "common/result.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace common::wire {

static_assert(std::endian::native == std::endian::little,
              "hvdrun and libhvd are built for little-endian hosts; a big-endian one needs swaps "
              "here");

template <std::unsigned_integral T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <std::unsigned_integral T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::unsigned_integral T>
void append(std::string& to, T value) {
  char bytes[sizeof value];
  store(bytes, value);
  to.append(bytes, sizeof bytes);
}

// Appends a size u32, and the bytes.
inline void append_bytes(std::string& to, std::string_view bytes) {
  append(to, static_cast<std::uint32_t>(bytes.size()));
  to += bytes;
}

// Appends a count u32, and the numbers.
inline void append_numbers(std::string& to, const std::vector<std::uint32_t>& numbers) {
  append(to, static_cast<std::uint32_t>(numbers.size()));
  for (const auto number : numbers) append(to, number);
}

// Takes fields off the front of a payload. Each function returns nullopt if the payload is too
// short for its field; nothing is taken then.
class FieldReader {
 public:
  explicit FieldReader(std::string_view payload) : rest_(payload) {}

  template <std::unsigned_integral T>
  std::optional<T> take() {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    const T value = load<T>(rest_.data());
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::optional<std::uint32_t> number() { return take<std::uint32_t>(); }

  // Takes so many bytes.
  std::optional<std::string_view> fixed(std::size_t size) {
    if (rest_.size() < size) return std::nullopt;
    const auto piece = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return piece;
  }
  // Takes what append_bytes() has written.
  std::optional<std::string_view> bytes() {
    const auto before = rest_;
    const auto size = number();
    const auto piece = size ? fixed(*size) : std::nullopt;
    if (!piece) rest_ = before;
    return piece;
  }
  // Takes a count of things that have at least so many bytes each. So a count that cannot be is
  // refused before memory is taken for it.
  std::optional<std::uint32_t> count(std::size_t least_bytes) {
    const auto before = rest_;
    const auto count = number();
    if (count && rest_.size() / least_bytes >= *count) return count;
    rest_ = before;
    return std::nullopt;
  }
  // Takes what append_numbers() has written.
  std::optional<std::vector<std::uint32_t>> numbers() {
    const auto size = count(sizeof(std::uint32_t));
    if (!size) return std::nullopt;
    std::vector<std::uint32_t> values(*size);
    for (auto& value : values) value = *number();
    return values;
  }
  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace common::wire
