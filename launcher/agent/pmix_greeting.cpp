#include "agent/pmix_greeting.hpp"

#include <cstddef>
#include <cstring>

#include <arpa/inet.h>

namespace hvdrun {
namespace {

constexpr char kSimpleClient = 0;  // what precedes the name of a rank; tools have other numbers

struct Header {
  std::int32_t index = 0;
  std::uint32_t tag = 0;
  std::uint32_t size = 0;  // of what follows; in the host's byte order
  std::uint32_t padding = 0;
};

// Removes the number from the front, or everything if there is none.
std::uint32_t take_number(std::string_view& bytes) {
  std::uint32_t number = 0;
  if (bytes.size() < sizeof number) {
    bytes = {};
    return 0;
  }
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return ntohl(number);
}

// Removes a text and the null byte that ends it from the front, or everything if none ends it.
void skip_text(std::string_view& bytes) {
  const auto end = bytes.find('\0');
  bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
}

}  // namespace

std::optional<std::uint32_t> rank_of_pmix_greeting(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  if (bytes.size() < header.size) return std::nullopt;
  bytes = bytes.substr(0, header.size);
  skip_text(bytes);  // the name of the security module
  const auto credential = take_number(bytes);
  if (bytes.size() <= credential) return std::nullopt;
  bytes.remove_prefix(credential);
  if (bytes.front() != kSimpleClient) return std::nullopt;
  bytes.remove_prefix(1);
  skip_text(bytes);  // the namespace
  if (bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
  return take_number(bytes);
}

}  // namespace hvdrun
