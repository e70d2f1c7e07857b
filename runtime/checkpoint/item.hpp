// The named parts of a state: name, type and shape of each, and where its data is. Values and pure
// functions, for any thread; faults are returned as text.
#pragma once

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
  // For HVD_ITEM_BYTES when loading: makes room for this many bytes and returns its address. Empty
  // if the caller gave no such function. See hvd_tensor_view.
  std::function<std::byte*(std::size_t)> resize;
};

// Returns the bytes of one element: 1 for HVD_ITEM_BYTES, 0 for an unknown type.
std::size_t item_element_size(hvd_item_type type);

// Returns the part's type and shape: "float32 [3, 4]", "bytes".
std::string describe_kind(const Description& description);

// Returns a name for messages: in quotes, cut after 100 bytes, with control characters escaped.
std::string quote_name(std::string_view name);

// Returns the bytes of a tensor of that shape. Returns nullopt if a length is negative or the
// product is larger than a file can be.
std::optional<std::uint64_t> bytes_of_shape(hvd_item_type type,
                                            std::span<const std::int64_t> shape);

// Checks that the items can be a state. Returns the first fault as text, "" if there is none: a
// name that is missing, too long or used twice; an impossible type or shape; a number of bytes that
// contradicts the shape.
std::string find_fault(std::span<const Item> items);

// Compares a state with another list of parts by name, in any order. Returns the differences as
// text ("missing: …; not expected: …; "w" is … and not …"), "" if there are none. The number of
// bytes of an HVD_ITEM_BYTES is compared only if `exact`.
std::string find_differences(std::span<const Description> mine, std::span<const Description> theirs,
                             bool exact = false);

// Returns the descriptions of the items, in the same order.
std::vector<Description> describe(std::span<const Item> items);

// Returns a number that is the same for the same parts in the same order. `exact` as in
// find_differences.
std::int64_t fingerprint(std::span<const Description> parts, bool exact);

}  // namespace libhvd::checkpoint
