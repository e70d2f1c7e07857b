// Values and texts of all ranks, over the communicator.
#pragma once

#include "base/result.hpp"
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

// The bytes of all ranks, rank 0's first. Collective. `sizes`, if not null, gets each rank's.
Result<std::vector<std::byte>> gather_bytes(Communicator& communicator,
                                            std::span<const std::byte> own,
                                            std::vector<std::size_t>* sizes = nullptr);

// The same with values; ranks may have different numbers of them.
template <class T>
Result<std::vector<T>> gather_values(Communicator& communicator, const std::vector<T>& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  HVD_TRY(const auto bytes, gather_bytes(communicator, std::as_bytes(std::span(own))));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A text of each rank to rank 0, however long. `next` gives this rank's piece by piece, at last "";
// a piece reaches `sink`, which is called on rank 0 only, whole. Collective.
Outcome gather_pieces(Communicator& communicator, const std::function<std::string()>& next,
                      const std::function<void(std::string_view)>& sink);

}  // namespace libhvd
