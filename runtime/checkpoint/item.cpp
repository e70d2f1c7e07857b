#include "checkpoint/item.hpp"

#include "base/error.hpp"
#include "collective/element.hpp"
#include "common/sha256.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace libhvd::checkpoint {
namespace {

constexpr std::size_t kShownName = 100;
constexpr std::size_t kShownDifferences = 8;  // of each kind

const char* item_type_name(hvd_item_type type) {
  switch (type) {
    case HVD_ITEM_BYTES:
      return "bytes";
    case HVD_ITEM_UINT32:
      return "uint32";
    case HVD_ITEM_UINT64:
      return "uint64";
    case HVD_ITEM_COMPLEX64:
      return "complex64";
    case HVD_ITEM_COMPLEX128:
      return "complex128";
    default:
      return type_name(type);
  }
}

std::string find_fault(const Item& item) {
  const Description& part = item.description;
  const std::string name = "item " + quote_name(part.name);
  if (part.name.empty()) return "an item has no name";
  if (part.name.size() > kLongestName)
    return name + ": the name has " + std::to_string(part.name.size()) + " bytes; at most " +
           std::to_string(kLongestName) + " are possible";
  if (item_element_size(part.type) == 0)
    return name + ": there is no type " + std::to_string(part.type);
  if (item.data == nullptr && part.bytes > 0) return name + ": data is null";
  if (part.type == HVD_ITEM_BYTES)
    return part.shape.empty() ? "" : name + ": bytes have no dimensions";
  if (part.shape.size() > kMostDimensions)
    return name + ": " + std::to_string(part.shape.size()) + " dimensions; at most " +
           std::to_string(kMostDimensions) + " are possible";
  const auto bytes = bytes_of_shape(part.type, part.shape);
  if (!bytes) return name + ": " + describe_kind(part) + " cannot be";
  if (*bytes != part.bytes)
    return name + ": " + describe_kind(part) + " has " + std::to_string(*bytes) +
           " bytes, and the data " + std::to_string(part.bytes);
  return "";
}

// Returns the title and up to kShownDifferences entries, with the number of the rest.
std::string list(const char* title, const std::vector<std::string>& entries) {
  if (entries.empty()) return "";
  std::string text = title;
  for (std::size_t i = 0; i < std::min(entries.size(), kShownDifferences); ++i) {
    text += (i > 0 ? ", " : "") + entries[i];
  }
  if (entries.size() > kShownDifferences)
    text += " and " + std::to_string(entries.size() - kShownDifferences) + " more";
  return text;
}

bool same_kind(const Description& a, const Description& b, bool exact) {
  const bool same_size = a.bytes == b.bytes || (a.type == HVD_ITEM_BYTES && !exact);
  return a.type == b.type && a.shape == b.shape && same_size;
}

std::string describe_exactly(const Description& part) {
  return part.type == HVD_ITEM_BYTES ? std::to_string(part.bytes) + " bytes" : describe_kind(part);
}

}  // namespace

std::size_t item_element_size(hvd_item_type type) {
  switch (type) {
    case HVD_ITEM_BYTES:
      return 1;
    case HVD_ITEM_UINT32:
      return 4;
    case HVD_ITEM_UINT64:
    case HVD_ITEM_COMPLEX64:
      return 8;
    case HVD_ITEM_COMPLEX128:
      return 16;
    default:
      return element_size(type);
  }
}

std::string describe_kind(const Description& description) {
  std::string text = item_type_name(description.type);
  if (description.type == HVD_ITEM_BYTES) return text;
  text += " [";
  for (std::size_t i = 0; i < description.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(description.shape[i]);
  }
  return text + "]";
}

std::string quote_name(std::string_view name) {
  std::string text = "\"";
  for (const char letter : name.substr(0, kShownName)) {
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code != 0x7f && letter != '"' && letter != '\\') {
      text += letter;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", code);
      text += escaped;
    }
  }
  return text + (name.size() > kShownName ? "\"…" : "\"");
}

std::optional<std::uint64_t> bytes_of_shape(hvd_item_type type,
                                            std::span<const std::int64_t> shape) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (std::ranges::any_of(shape, [](std::int64_t length) { return length < 0; }))
    return std::nullopt;
  std::uint64_t bytes = item_element_size(type);
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const std::int64_t length : shape) {
    if (bytes > kMost / static_cast<std::uint64_t>(length)) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(length);
  }
  return bytes;
}

std::string find_fault(std::span<const Item> items) {
  std::unordered_set<std::string_view> names;
  for (const Item& item : items) {
    if (std::string fault = find_fault(item); !fault.empty()) return fault;
    if (!names.insert(item.description.name).second)
      return "two items are called " + quote_name(item.description.name);
  }
  return "";
}

std::string find_differences(std::span<const Description> mine, std::span<const Description> theirs,
                             bool exact) {
  std::unordered_map<std::string_view, const Description*> wanted;
  for (const Description& part : mine) wanted.emplace(part.name, &part);
  std::vector<std::string> extra, other;
  for (const Description& part : theirs) {
    const auto found = wanted.find(part.name);
    if (found == wanted.end()) {
      extra.push_back(quote_name(part.name) + " (" + describe_exactly(part) + ")");
      continue;
    }
    if (!same_kind(*found->second, part, exact))
      other.push_back(quote_name(part.name) + " is " + describe_exactly(part) + " and not " +
                      describe_exactly(*found->second));
    wanted.erase(found);
  }
  std::vector<std::string> missing;
  for (const Description& part : mine) {
    if (wanted.contains(part.name))
      missing.push_back(quote_name(part.name) + " (" + describe_kind(part) + ")");
  }
  std::string text;
  for (const std::string& line :
       {list("missing: ", missing), list("not expected: ", extra), list("", other)}) {
    if (!line.empty()) text += (text.empty() ? "" : "; ") + line;
  }
  return text;
}

std::vector<Description> describe(std::span<const Item> items) {
  std::vector<Description> parts;
  parts.reserve(items.size());
  for (const Item& item : items) parts.push_back(item.description);
  return parts;
}

std::int64_t fingerprint(std::span<const Description> parts, bool exact) {
  Sha256 hash;
  const auto number = [&](std::uint64_t value) {
    std::uint8_t bytes[8];
    std::memcpy(bytes, &value, sizeof bytes);
    hash.update(bytes);
  };
  for (const Description& part : parts) {
    number(part.name.size());
    hash.update({reinterpret_cast<const std::uint8_t*>(part.name.data()), part.name.size()});
    number(static_cast<std::uint64_t>(part.type));
    number(part.shape.size());
    for (const std::int64_t length : part.shape) number(static_cast<std::uint64_t>(length));
    number(part.type == HVD_ITEM_BYTES && !exact ? 0 : part.bytes);
  }
  const Digest digest = hash.finish();
  std::int64_t value = 0;
  std::memcpy(&value, digest.data(), sizeof value);
  return value;
}

}  // namespace libhvd::checkpoint
