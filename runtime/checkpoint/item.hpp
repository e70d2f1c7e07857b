// The named parts of a state: what they are called and shaped like, and where they lie.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/checkpoint.h>

namespace libhvd::checkpoint {

inline constexpr std::size_t kLongestName = 65535;
inline constexpr std::size_t kMostDimensions = 64;

// What a part is, without its data.
struct Description {
  std::string name;
  hvd_item_type type = HVD_FLOAT32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;

  bool operator==(const Description&) const = default;
};

// A part in the caller's memory.
struct Item {
  Description description;
  std::byte* data = nullptr;
  // For bytes, when loading: makes room for this many and says where; see hvd_item.
  std::function<std::byte*(std::size_t)> resize;
};

// Bytes of one element; 0 for a type that there is not. HVD_ITEM_BYTES: 1.
std::size_t item_element_size(hvd_item_type type);

// "float32 [3, 4]", "bytes".
std::string describe_kind(const Description& description);

// A name as it can be shown: in quotes, what does not print escaped, long ones cut.
std::string quote_name(std::string_view name);

// Elements of a shape times their size; nothing when that is no size that a file can have.
std::optional<std::uint64_t> bytes_of_shape(hvd_item_type type,
                                            std::span<const std::int64_t> shape);

// Why these cannot be a state: a name that is missing, too long or given twice, a type or shape
// that cannot be, bytes that the shape does not have. "" when they can.
std::string find_fault(std::span<const Item> items);

// What differs between a state and another list of parts, by name and in any order: "missing: …;
// not expected: …; "w" is … and not …". "" when nothing does. The number of bytes in
// HVD_ITEM_BYTES differs only with `exact`.
std::string find_differences(std::span<const Description> mine, std::span<const Description> theirs,
                             bool exact = false);

std::vector<Description> describe(std::span<const Item> items);

// The same number for the same parts in the same order, with the meaning of `exact` as above.
std::int64_t fingerprint(std::span<const Description> parts, bool exact);

}  // namespace libhvd::checkpoint
