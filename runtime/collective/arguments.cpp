#include "collective/arguments.hpp"

#include "collective/call.hpp"
#include "collective/element.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace libhvd {
namespace {

// The texts of the checks below. A check compares, and makes a text only if something is wrong: in
// a small call the time for a text shows, even for an empty one.

std::string wrong_type(hvd_type type) {
  return "the type " + std::to_string(type) + " is none of HVD_UINT8, HVD_INT8, …";
}

std::string wrong_reduction(hvd_type type, hvd_op op) {
  if (element_size(type) == 0) return wrong_type(type);
  if (!op_exists(op)) return "the op " + std::to_string(op) + " is none of HVD_AVERAGE, HVD_SUM, …";
  if (op == HVD_AVERAGE) return "there is no average of bool";
  return std::string("Adasum is for floating point types, not for ") + type_name(type);
}

std::string wrong_count(std::size_t count) {
  return "the count " + std::to_string(count) + " is more than any memory holds";
}

std::string wrong_rows(std::size_t rows, std::size_t row_size) {
  return std::to_string(rows) + " rows of " + std::to_string(row_size) +
         " elements are more than any memory holds";
}

bool is_missing(const void* buffer, std::size_t count) {
  return buffer == nullptr && count != 0;
}
std::string missing_buffer(const char* what, std::size_t count) {
  return std::string("the ") + what + " is null with a count of " + std::to_string(count);
}

// Checks what allgather and reducescatter have in common. The type must exist.
Fault check_rows(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                 const void* output, std::size_t output_rows) {
  if (row_size > kMostElements) return wrong_count(row_size);
  if (row_size == 0) return {};
  const std::size_t row_bytes = row_size * element_size(type);
  const std::size_t most = std::max(rows, output_rows);
  if (!memory_holds(most, row_bytes)) return wrong_rows(most, row_size);
  if (is_missing(input, rows)) return missing_buffer("input", rows);
  if (is_missing(output, output_rows)) return missing_buffer("output", output_rows);
  if (overlap(input, rows * row_bytes, output, output_rows * row_bytes))
    return "input and output overlap";
  return {};
}

Call rows_call(Collective kind, std::size_t rows, std::size_t row_size, hvd_type type,
               const CallOptions& options) {
  Call call = make_call(kind, options);
  call.type = type;
  call.count = rows;
  call.row_size = row_size;
  return call;
}

// Publishes how much room there is. A call may have an output or an allocator, not both.
void set_room(Call& call, const void* output, std::size_t output_rows, const Allocator& allocator) {
  call.output_rows = allocator ? kAnyRoom : output_rows;
  if (call.fault.empty() && allocator && (output != nullptr || output_rows != 0))
    call.fault = "there is an output, and hvd_options.allocate for another one";
}

}  // namespace

Fault check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                      hvd_op op) {
  if (!reduction_exists(type, op)) return wrong_reduction(type, op);
  if (count > kMostElements) return wrong_count(count);
  if (is_missing(input, count)) return missing_buffer("input", count);
  if (is_missing(output, count)) return missing_buffer("output", count);
  const std::size_t bytes = count * element_size(type);
  if (input != output && overlap(input, bytes, output, bytes))
    return "input and output overlap but are not the same buffer";
  return {};
}

Fault check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root, int size) {
  if (element_size(type) == 0) return wrong_type(type);
  if (root < 0 || root >= size)
    return "the root " + std::to_string(root) + " is not a rank of 0 to " +
           std::to_string(size - 1);
  if (count > kMostElements) return wrong_count(count);
  if (is_missing(buffer, count)) return missing_buffer("buffer", count);
  return {};
}

Fault check_allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                      const void* output, std::size_t output_rows) {
  if (element_size(type) == 0) return wrong_type(type);
  return check_rows(input, rows, row_size, type, output, output_rows);
}

Fault check_reducescatter(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                          hvd_op op, const void* output, std::size_t own_rows) {
  if (!reduction_exists(type, op)) return wrong_reduction(type, op);
  if (op == HVD_ADASUM) return "Adasum is for allreduces";
  return check_rows(input, rows, row_size, type, output, own_rows);
}

Fault check_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                     std::size_t row_size, hvd_type type, const void* output,
                     std::size_t output_rows, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  if (splits == nullptr && rows % ranks != 0)
    return std::to_string(rows) + " rows cannot be divided evenly among " + std::to_string(ranks) +
           " ranks, and there are no splits";
  std::size_t sum = 0;
  bool fits = true;
  for (std::size_t rank = 0; splits != nullptr && rank < ranks; ++rank) {
    fits = fits && splits[rank] <= rows - sum;
    if (fits) sum += splits[rank];
  }
  if (splits != nullptr && (!fits || sum != rows))
    return "the splits do not add up to the " + std::to_string(rows) + " rows";
  return check_allgather(input, rows, row_size, type, output, output_rows);
}

Fault check_adasum_ranks(int size) {
  if (std::has_single_bit(static_cast<unsigned>(size))) return {};
  return "Adasum is for a number of ranks that is a power of two, not for " + std::to_string(size);
}

Fault check_scale(const Scale& scale, hvd_type type) {
  if (!scale.any()) return {};
  if (!std::isfinite(scale.before) || !std::isfinite(scale.after)) return "a factor is not finite";
  return type == HVD_BOOL ? "there are no factors for bool" : "";
}

Fault check_compression(Compression compression, const void* input, std::size_t count,
                        hvd_type type, hvd_op op, bool on_device) {
  if (compression == Compression::none) return {};
  if (!compression_exists(compression))
    return "the compression " + std::to_string(static_cast<std::int32_t>(compression)) +
           " is none of HVD_COMPRESSION_NONE, HVD_COMPRESSION_FLOAT16, …";
  const std::string what = std::string("compression in ") + compression_name(compression);
  if (!is_floating_point(type))
    return what + " is for floating point types, not for " + type_name(type);
  if (op != HVD_SUM && op != HVD_AVERAGE)
    return what + " is for sum and average, not for " + op_name(op);
  if (compression != Compression::int8 || on_device) return {};
  if (const auto place = find_not_finite(type, input, count))
    return what + " is for finite numbers: element " + std::to_string(*place) +
           " is infinite, NaN or beyond float32";
  return {};
}

Call allreduce_call(const void* input, const void* output, std::size_t count, hvd_type type,
                    hvd_op op, const CallOptions& options) {
  Call call = make_call(Collective::allreduce, options);
  call.type = type;
  call.op = op;
  call.count = count;
  if (call.fault.empty()) call.fault = check_allreduce(input, output, count, type, op);
  if (call.fault.empty() && call.scale.any()) call.fault = check_scale(call.scale, type);
  if (call.fault.empty() && call.compression != Compression::none)
    call.fault =
        check_compression(call.compression, input, count, type, op, options.place.on_device);
  return call;
}

Call broadcast_call(const void* buffer, std::size_t count, hvd_type type, int root, int size,
                    const CallOptions& options) {
  Call call = make_call(Collective::broadcast, options);
  call.type = type;
  call.root = root;
  call.count = count;
  if (call.fault.empty()) call.fault = check_broadcast(buffer, count, type, root, size);
  return call;
}

Call allgather_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                    const void* output, std::size_t output_rows, const CallOptions& options) {
  Call call = rows_call(Collective::allgather, rows, row_size, type, options);
  set_room(call, output, output_rows, options.allocator);
  if (call.fault.empty())
    call.fault = check_allgather(input, rows, row_size, type, output, output_rows);
  return call;
}

Call reducescatter_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                        hvd_op op, const void* output, std::size_t own_rows,
                        const CallOptions& options) {
  Call call = rows_call(Collective::reducescatter, rows, row_size, type, options);
  call.op = op;
  if (call.fault.empty())
    call.fault = check_reducescatter(input, rows, row_size, type, op, output, own_rows);
  if (call.fault.empty() && call.scale.any()) call.fault = check_scale(call.scale, type);
  return call;
}

Call alltoall_call(const void* input, const std::size_t* splits, std::size_t rows,
                   std::size_t row_size, hvd_type type, const void* output, std::size_t output_rows,
                   int size, const CallOptions& options) {
  Call call = rows_call(Collective::alltoall, rows, row_size, type, options);
  set_room(call, output, output_rows, options.allocator);
  if (call.fault.empty())
    call.fault = check_alltoall(input, splits, rows, row_size, type, output, output_rows, size);
  return call;
}

}  // namespace libhvd
