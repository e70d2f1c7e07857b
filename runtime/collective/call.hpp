// A collective as its caller asks for it, and as it is published to the other ranks: options, the
// call, its header and its details. Plain values and pure functions; they cannot fail.
//
// A rank publishes the header with every call, so that the others compare it with their own. It
// publishes the details only when the headers differ (disagreement.hpp).
#pragma once

#include "base/error.hpp"
#include "collective/compression.hpp"
#include "collective/reduce.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace libhvd {

class ErrorFeedback;

// The caller's function that makes room for a result (hvd_options.allocate).
struct Allocator {
  void* (*allocate)(void* context, std::size_t rows) = nullptr;  // null: the call has none
  void* context = nullptr;

  explicit operator bool() const { return allocate != nullptr; }
};

// The memory in which the buffers of a call are.
struct BufferLocation {
  bool on_device = false;    // HVD_CUDA
  void* stream = nullptr;    // a cudaStream_t; null: the default stream
  std::int32_t device = -1;  // the one that was current at the time of the call; -1: the one now
};

enum class Collective : std::int32_t {
  allreduce = 1,
  broadcast,
  allgather,
  barrier,
  reducescatter,
  alltoall,
  group,     // the beginning of several allreduces
  join,      // this rank has no more data
  proposals  // the engine's rounds
};

// Returns "allreduce" and so on; "grouped_allreduce" for a group.
const char* collective_name(Collective kind);

// Hashes by FNV-1a, 64 bits. Never returns 0, which is the hash of a call without a name.
std::uint64_t hash_name(std::string_view name);

// Why a rank cannot take part in a call; empty if it can. It is a pointer, because a small call
// would take longer with a std::string, even with an empty one.
class Fault {
 public:
  Fault() = default;
  Fault(std::string text) {  // NOLINT(google-explicit-constructor): for texts and "" alike
    if (!text.empty()) text_ = std::make_shared<const std::string>(std::move(text));
  }
  Fault(const char* text) : Fault(std::string(text)) {}  // NOLINT(google-explicit-constructor)

  bool empty() const { return text_ == nullptr; }
  std::string_view text() const { return empty() ? std::string_view() : *text_; }

 private:
  std::shared_ptr<const std::string> text_;
};

// The options of a collective, in addition to its arguments.
struct CallOptions {
  const char* name = nullptr;    // null: none
  std::uint64_t name_hash = 0;   // of `name`, if the caller knows it; 0: make_call() computes it
  Scale scale = {};              // of a reduction
  std::int32_t process_set = 0;  // 0: all ranks
  std::int32_t priority = 0;     // see hvd_options
  bool gradients = false;        // see hvd_options
  Fault fault = {};              // an error that the caller has found already
  // The communicator's own collectives are for host memory only.
  BufferLocation place = {};
  Allocator allocator = {};  // of the output; of allgather and alltoall only
  std::string shape = {};    // of the tensor, as its framework has it; "" if not given
  Compression compression = Compression::none;  // of allreduce
  // With int8: where the call keeps what it leaves out; null: nowhere. A call for many tensors
  // (`feedback`) gives each the `residuals` of its elements.
  ErrorFeedback* feedback = nullptr;
  float* residuals = nullptr;
};

// The room for rows that a rank with an allocator publishes.
inline constexpr std::uint64_t kAnyRoom = std::numeric_limits<std::uint64_t>::max();

// A collective as its caller asks for it. Fields that the collective does not use are 0. It must
// not live longer than the options that it was made of.
struct Call {
  // (A constructor, because an aggregate of this size is first filled with zeros, which takes
  // long.)
  explicit Call(Collective its_kind) : kind(its_kind) {}

  Collective kind;
  hvd_type type = 0;
  hvd_op op = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;        // elements; rows if the collective has rows
  std::uint64_t row_size = 0;     // elements; of a group: a hash of the lengths of its tensors
  std::uint64_t output_rows = 0;  // how many fit into this rank's output, or kAnyRoom
  std::uint64_t needed_rows = 0;  // how many this rank gets; known only after the first step
  Scale scale = {};
  const char* name = nullptr;   // null: none
  std::uint64_t name_hash = 0;  // 0: no name
  std::string_view shape = {};  // of the tensor; "" if not given
  Fault fault = {};             // of this rank
  bool on_device = false;       // the buffers are in device memory
  Compression compression = Compression::none;
  bool reproducible = false;  // HVD_REPRODUCIBLE; of reductions
};

// Returns a call with only what the options say. The shape is cut to fit into CallDetails.
Call make_call(Collective kind, const CallOptions& options);

// A call as published with every step. It is in shared memory, so it has no pointers. Calls fit
// together if their headers are equal and none is faulty. It has whole words only: a processor
// waits when it reads a word that it has just written in parts.
struct CallHeader {
  std::uint64_t what;   // from the lowest bit: kind, type, op, faulty (8 bits each) and root
  std::uint64_t count;  // 0 if ranks may differ in it
  std::uint64_t row_size;
  std::uint64_t hash;  // of name, factors, shape, kind of memory, and how it is done; 0 without any
  bool operator==(const CallHeader&) const = default;

  Collective kind() const { return static_cast<Collective>(what & 0xff); }
  hvd_type type() const { return static_cast<hvd_type>(what >> 8 & 0xff); }
  hvd_op op() const { return static_cast<hvd_op>(what >> 16 & 0xff); }
  bool faulty() const { return (what >> 24 & 0xff) != 0; }
  std::int32_t root() const { return static_cast<std::int32_t>(what >> 32); }
};

// Returns whether ranks may differ in the count of this collective.
constexpr bool may_differ_in_count(Collective kind) {
  return kind == Collective::allgather || kind == Collective::alltoall;
}

// Returns CallHeader::hash.
std::uint64_t hash_call(const Call& call);

inline CallHeader make_call_header(const Call& call) {
  const auto byte = [](auto value) { return std::uint64_t{static_cast<std::uint8_t>(value)}; };
  return {.what = byte(call.kind) | byte(call.type) << 8 | byte(call.op) << 16 |
                  byte(!call.fault.empty()) << 24 |
                  std::uint64_t{static_cast<std::uint32_t>(call.root)} << 32,
          .count = may_differ_in_count(call.kind) ? 0 : call.count,
          .row_size = call.row_size,
          .hash = hash_call(call)};
}

// The facts about a collective's data that traces show.
struct CallFacts {
  static constexpr std::uint8_t kNone = 255;

  std::uint64_t bytes = 0;    // this rank's input, or the root's
  std::uint8_t type = kNone;  // hvd_type
  std::uint8_t op = kNone;    // hvd_op
};
// `count`: that of this rank's call.
CallFacts facts_of(const CallHeader& header, std::uint64_t count);

inline constexpr std::size_t kNameBytes = 128;
inline constexpr std::size_t kShapeBytes = 64;
inline constexpr std::size_t kFaultBytes = 192;

// A call with all that an error message needs. It is in shared memory, so it has no pointers.
// Longer texts are cut.
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
  std::uint64_t shape_hash;  // 0 if no shape is given
  Compression compression;
  std::uint32_t reproducible;
  char name[kNameBytes];    // "" without a name
  char shape[kShapeBytes];  // "" without a shape
  char fault[kFaultBytes];  // why this rank cannot take part; "" if it can
};

CallDetails make_call_details(const Call& call, int rank);
// Returns what the header of a call without a name contains.
CallDetails make_call_details(const CallHeader& header, int rank);

// Returns the name of the call in the details, or "none"; quoted, for messages.
std::string quoted_name(const CallDetails& details);

// Returns `allreduce "grad.3"`, for messages.
std::string describe_call(const CallDetails& details);

}  // namespace libhvd
