#include "collective/calls.hpp"

#include "collective/arguments.hpp"
#include "collective/output.hpp"

namespace libhvd {
namespace {

Call rows_call(Collective kind, std::size_t rows, std::size_t row_size, hvd_type type,
               const CallOptions& options) {
  Call call = make_call(kind, options);
  call.type = type;
  call.count = rows;
  call.row_size = row_size;
  return call;
}

// Says how much room there is.
void set_room(Call& call, const void* output, std::size_t output_rows, const Allocator& allocator) {
  call.output_rows = allocator ? kAnyRoom : output_rows;
  if (call.fault.empty() && allocator && (output != nullptr || output_rows != 0))
    call.fault = "there is an output, and hvd_options.allocate for another one";
}

}  // namespace

Call allreduce_call(const void* input, const void* output, std::size_t count, hvd_type type,
                    hvd_op op, const CallOptions& options) {
  Call call = make_call(Collective::allreduce, options);
  call.type = type;
  call.op = op;
  call.count = count;
  if (call.fault.empty() && !allreduce_is_sound(input, output, count, type, op))
    call.fault = check_allreduce(input, output, count, type, op);
  if (call.fault.empty() && call.scale.any()) call.fault = check_scale(call.scale, type);
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
  if (call.fault.empty()) call.fault = check_scale(call.scale, type);
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
