#include "collective/rows_output.hpp"

#include "base/error.hpp"
#include "collective/arguments.hpp"
#include "collective/call.hpp"

#include <string>

namespace libhvd {

Output find_output(const Call& call, void* given, const Allocator& allocator, const void* input,
                   std::size_t row_bytes) {
  if (!allocator) return {static_cast<std::byte*>(given)};
  void* const memory = allocator.allocate(allocator.context, call.needed_rows);
  const std::size_t bytes = call.needed_rows * row_bytes;
  if (bytes == 0) return {};
  if (memory == nullptr)
    return unusable_output(call, "no memory: hvd_options.allocate gave none for " +
                                     std::to_string(call.needed_rows) + " rows");
  if (overlap(input, call.count * row_bytes, memory, bytes))
    return unusable_output(call, "hvd_options.allocate gave memory that overlaps with the input");
  return {static_cast<std::byte*>(memory)};
}

Output unusable_output(const Call& call, const std::string& why) {
  return {nullptr,
          with_context(describe_call(make_call_details(call, 0)), fail(HVD_ERROR_SYSTEM, why))};
}

}  // namespace libhvd
