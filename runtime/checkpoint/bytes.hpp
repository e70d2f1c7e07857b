// Numbers and texts as bytes, in this machine's order (little-endian, see format.hpp), and back
// with a check of each. Plain values; errors show in ByteReader::ok().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace libhvd::checkpoint {

// Builds a byte string.
class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  // Appends the length and then the bytes.
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void zeros(std::size_t count) { bytes_.append(count, '\0'); }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a ByteWriter has written. Past the end it returns zeros and empty texts, and is not
// ok() any more.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> T number() {
    T value{};
    const std::string_view bytes = raw(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view text() { return raw(number<std::uint32_t>()); }
  std::string_view raw(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  // Reads a count of things that have at least `size` bytes each. A count for which too few bytes
  // follow is not ok() and returned as 0.
  std::uint64_t count(std::uint64_t size) {
    const auto count = number<std::uint64_t>();
    if (count > rest_.size() / size) ok_ = false;
    return ok_ ? count : 0;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace libhvd::checkpoint
