// What the functions of hvd/data.h and hvd/rates.h have in common at the border of the C ABI.
#pragma once

#include "base/result.hpp"
#include "c_api/c_api.hpp"
#include "io/shard.hpp"
#include "io/source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <hvd/data.h>

namespace libhvd {

// Runs compute: () -> Result<T> and puts its value to `where`; errors get the function's name.
template <class T, class Compute>
hvd_status give(const char* what, T* where, Compute compute) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (where == nullptr) return report(null_pointer(what));
    Result<T> value = compute();
    if (!value.ok()) return report(with_context(what, value.error()));
    *where = std::move(*value);
    return HVD_OK;
  });
}

// A copy of a caller's options, which begin with their struct_size. What an older caller does not
// have is zero; what this version does not know must be.
template <class Options>
Result<Options> read_struct(const Options* given, const char* type) {
  const std::size_t size = given->struct_size;
  if (size < sizeof(std::size_t) || size > 4096)
    return fail(HVD_ERROR_INVALID_ARGUMENT, std::string(type) + ".struct_size is " +
                                                std::to_string(size) + "; it must be sizeof(" +
                                                type + ")");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Options); i < size; ++i) {
    if (bytes[i] != 0)
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  std::string(type) + " asks for what this version of libhvd cannot do");
  }
  Options read{};
  std::memcpy(&read, given, std::min(size, sizeof read));
  return read;
}

}  // namespace libhvd

// The C ABI's handle of a source, which readers share.

struct hvd_source {
  std::shared_ptr<const libhvd::Source> source;
};

namespace libhvd {

// From the C ABI's options for a shard to the library's own.

// Rank and size are the job's where the caller left them to it. `given` is not null.
Result<ShardOptions> read_shard_options(const hvd_shard_options* given);

}  // namespace libhvd
