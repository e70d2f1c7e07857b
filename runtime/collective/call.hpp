// The caller's way to make room for a result (hvd_options.allocate).
#pragma once

#include "base/result.hpp"
#include "collective/element.hpp"
#include "collective/reduce.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <hvd/hvd.h>

namespace libhvd {

struct Allocator {
  void* (*allocate)(void* context, std::size_t rows) = nullptr;  // null: there is none
  void* context = nullptr;

  explicit operator bool() const { return allocate != nullptr; }
};

// Where the buffers of a call lie.

struct Place {
  bool on_device = false;    // HVD_CUDA
  void* stream = nullptr;    // a cudaStream_t; null: the default stream
  std::int32_t device = -1;  // the one that was current when the call was made; -1: is now
};

// What a rank publishes about its call, for the other ranks to compare with their own: a header
// with every call, and the details once the headers differ.

enum class Collective : std::int32_t {
  allreduce = 1,
  broadcast,
  allgather,
  barrier,
  reducescatter,
  alltoall,
  group,     // the beginning of several allreduces
  join,      // of a rank that has nothing more to give
  proposals  // the engine's rounds
};

const char* collective_name(Collective kind);

// FNV-1a, 64 bits; never 0, which stands for "no name".
std::uint64_t hash_name(std::string_view name);

// What a call says besides its arguments.
struct CallOptions {
  const char* name = nullptr;    // null: none
  std::uint64_t name_hash = 0;   // of it, where that is known
  Scale scale = {};              // of a reduction
  std::int32_t process_set = 0;  // 0: all ranks
  std::int32_t priority = 0;     // see hvd_options
  std::string fault = {};        // what the caller has already found wrong; "": nothing
  Place place = {};  // of the buffers; the communicator's own collectives are for host memory
  Allocator allocator = {};  // of the output; of allgather and alltoall only
  std::string shape = {};    // of the tensor, as its framework has it; "": not told
};

// A collective as its caller asks for it. Fields that it does not use are 0.
struct Call {
  Collective kind;
  hvd_type type = 0;
  hvd_op op = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;        // elements, or rows where there are any
  std::uint64_t row_size = 0;     // elements; of a group: a hash of the counts of its tensors
  std::uint64_t output_rows = 0;  // how many fit into this rank's output
  std::uint64_t needed_rows = 0;  // how many come; known late
  Scale scale = {};
  const char* name = nullptr;   // null: none
  std::uint64_t name_hash = 0;  // 0: none
  std::string shape = {};       // of the tensor; "": not told
  std::string fault = {};       // why this rank cannot take part; "" when it can
  bool on_device = false;       // its buffers are in device memory
};

// With nothing set but what the options say.
Call make_call(Collective kind, const CallOptions& options);
// What is worth showing of a collective's data.
struct CallFacts {
  static constexpr std::uint8_t kNone = 255;

  std::uint64_t bytes = 0;    // this rank's input, or the root's
  std::uint8_t type = kNone;  // hvd_type
  std::uint8_t op = kNone;    // hvd_op
};
CallFacts facts_of(const Call& call);

// Lives in shared memory: no pointers. Equal on all ranks, and not faulty, when their calls fit
// together.
struct CallHeader {
  std::uint8_t kind;
  std::uint8_t type;
  std::uint8_t op;
  std::uint8_t faulty;
  std::int32_t root;
  std::uint64_t count;  // 0 where ranks may differ in it
  std::uint64_t row_size;
  std::uint64_t hash;  // of name, factors, shape and kind of memory; 0 without any
  bool operator==(const CallHeader&) const = default;
};

CallHeader make_call_header(const Call& call);

inline constexpr std::size_t kNameBytes = 128;
inline constexpr std::size_t kShapeBytes = 64;
inline constexpr std::size_t kFaultBytes = 192;

// Lives in shared memory, too.
struct CallDetails {
  std::int32_t rank;  // for messages
  Collective kind;
  hvd_type type;
  hvd_op op;
  std::int32_t root;
  std::uint64_t count;
  std::uint64_t row_size;
  std::uint64_t output_rows;
  std::uint64_t needed_rows;
  double before;  // factors
  double after;
  std::uint64_t name_hash;
  std::uint64_t on_device;
  std::uint64_t shape_hash;  // 0 when it is not told
  char name[kNameBytes];     // as much as fits; "" without one
  char shape[kShapeBytes];   // likewise
  char fault[kFaultBytes];   // why this rank cannot take part; "" when it can
};

CallDetails make_call_details(const Call& call, int rank);

// `allreduce "grad.3"`, for messages.
std::string describe_call(const CallDetails& details);

// The error that this set of calls is, one details a rank: a rank with a fault, or ranks that
// called different things. All ranks get the same answer, as they see the same details.
// Nothing: they fit together.
std::optional<Error> find_disagreement(std::span<const CallDetails* const> all_details);

// Some of the calls are joins, not all. Nothing: the others' call goes on with zeros for those.
std::optional<Error> find_disagreement_with_joined(std::span<const CallDetails* const> all_details);

// What can be wrong with one rank's arguments, as text for its peers; "" when nothing is.

// Counts stay below this in bytes, so that no sum or product of them overflows.
inline constexpr std::size_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 4096;
inline constexpr std::size_t kMostElements = kMostBytes / 8;

inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

// Whether check_allreduce() would say "", for the small calls in which its texts show.
inline bool allreduce_is_sound(const void* input, const void* output, std::size_t count,
                               hvd_type type, hvd_op op) {
  const std::size_t element = element_size(type);
  return element != 0 && op_exists(op) && (type != HVD_BOOL || op != HVD_AVERAGE) &&
         (op != HVD_ADASUM || is_floating_point(type)) && count <= kMostElements &&
         (count == 0 || (input != nullptr && output != nullptr)) &&
         (input == output || !overlap(input, count * element, output, count * element));
}

std::string check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                            hvd_op op);
std::string check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root,
                            int size);
std::string check_allgather(const void* input, std::size_t rows, std::size_t row_size,
                            hvd_type type, const void* output, std::size_t output_rows);

std::string check_reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                hvd_type type, hvd_op op, const void* output, std::size_t own_rows);
// `splits`: rows for each rank; null: as many for each.
std::string check_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                           std::size_t row_size, hvd_type type, const void* output,
                           std::size_t output_rows, int size);
std::string check_scale(const Scale& scale, hvd_type type);

// Where the rows of an allgather or an alltoall go: into memory that came with the call, or into
// what the caller allocates once all ranks have said how many rows there are.

// What a rank with an allocator says of its room.
inline constexpr std::uint64_t kAnyRoom = std::numeric_limits<std::uint64_t>::max();

// Of numbers that other ranks tell: the sum, or the largest there is.
inline std::uint64_t add_rows(std::uint64_t some, std::uint64_t more) {
  return more > std::numeric_limits<std::uint64_t>::max() - some
             ? std::numeric_limits<std::uint64_t>::max()
             : some + more;
}
// Whether there can be so many.
inline bool makes_sense(std::uint64_t rows, std::size_t row_bytes) {
  return row_bytes == 0 || rows <= kMostBytes / row_bytes;
}

struct Output {
  std::byte* bytes = nullptr;  // null: this rank takes part, but writes nothing
  Result<void> outcome{};      // this rank's when the call has come to its end
};

// The output given with the call, or call.needed_rows rows of the allocator's, apart from the
// input. Called once, when all ranks' calls fit together.
Output find_output(const Call& call, void* given, const Allocator& allocator, const void* input,
                   std::size_t row_bytes);

// Of what the allocator gave, and this rank cannot use. The others go on, so this must not read
// like a mistake that all ranks have found.
Output unusable_output(const Call& call, const std::string& why);

// What a rank says of each collective that it calls, with what is wrong with its arguments,
// wherever the data then goes.

Call allreduce_call(const void* input, const void* output, std::size_t count, hvd_type type,
                    hvd_op op, const CallOptions& options);
Call broadcast_call(const void* buffer, std::size_t count, hvd_type type, int root, int size,
                    const CallOptions& options);
Call allgather_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                    const void* output, std::size_t output_rows, const CallOptions& options);
// `own_rows`: this rank's share of the result.
Call reducescatter_call(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                        hvd_op op, const void* output, std::size_t own_rows,
                        const CallOptions& options);
Call alltoall_call(const void* input, const std::size_t* splits, std::size_t rows,
                   std::size_t row_size, hvd_type type, const void* output, std::size_t output_rows,
                   int size, const CallOptions& options);

}  // namespace libhvd
