// Gathers bytes, values and long texts of all ranks over the communicator. All functions are
// collectives. Error: a collective failed.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace libhvd {

// Returns the bytes of all ranks, in the order of ranks. `sizes`, if not null, gets each rank's
// number of bytes.
Result<std::vector<std::byte>> gather_bytes(Communicator& communicator,
                                            std::span<const std::byte> own,
                                            std::vector<std::size_t>* sizes = nullptr);

// Returns the values of all ranks, in the order of ranks. Ranks may have different numbers of
// values.
template <class T>
Result<std::vector<T>> gather_values(Communicator& communicator, const std::vector<T>& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  HVD_TRY(const auto bytes, gather_bytes(communicator, std::as_bytes(std::span(own))));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Sends a text of each rank, of any length, to rank 0. `next` returns the next part of this rank's
// text, and at last "". On rank 0 `sink` gets each part whole; on other ranks it is not called.
Result<void> gather_text(Communicator& communicator, const std::function<std::string()>& next,
                         const std::function<void(std::string_view)>& sink);

}  // namespace libhvd
