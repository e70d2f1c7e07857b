// What a rank says about a collective that it calls, for its peers to compare with their own: a
// brief with every call, and a record with all there is to tell once the briefs do not fit
// together.
#pragma once

#include "base/result.hpp"
#include "collective/allocator.hpp"
#include "collective/place.hpp"
#include "collective/reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace libhvd {

enum class Collective : std::int32_t {
  allreduce = 1,
  broadcast,
  allgather,
  barrier,
  reducescatter,
  alltoall,
  group,  // the beginning of several allreduces
  join,   // of a rank that has nothing more to give
  news    // the engine's rounds
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
struct CallBrief {
  std::uint8_t kind;
  std::uint8_t type;
  std::uint8_t op;
  std::uint8_t faulty;
  std::int32_t root;
  std::uint64_t count;  // 0 where ranks may differ in it
  std::uint64_t row_size;
  std::uint64_t hash;  // of name, factors, shape and kind of memory; 0 without any
  bool operator==(const CallBrief&) const = default;
};

CallBrief make_brief(const Call& call);

inline constexpr std::size_t kNameBytes = 128;
inline constexpr std::size_t kShapeBytes = 64;
inline constexpr std::size_t kFaultBytes = 192;

// Lives in shared memory, too.
struct CallRecord {
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

CallRecord make_record(const Call& call, int rank);

// `allreduce "grad.3"`, for messages.
std::string describe_call(const CallRecord& record);

// The error that this set of calls is, one record a rank: a rank with a fault, or ranks that called
// different things. All ranks get the same answer, as they see the same records. Nothing: they fit
// together.
std::optional<Error> find_disagreement(std::span<const CallRecord* const> records);

// Some of the calls are joins, not all. Nothing: the others' call goes on with zeros for those.
std::optional<Error> find_disagreement_with_joined(std::span<const CallRecord* const> records);

}  // namespace libhvd
