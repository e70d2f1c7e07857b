// What a rank says about a collective that it calls, for its peers to compare with their own.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace libhvd {

enum class Collective : std::int32_t { allreduce = 1, broadcast, allgather, barrier };

const char* collective_name(Collective kind);

inline constexpr std::size_t kNameBytes = 128;
inline constexpr std::size_t kFaultBytes = 192;

// Lives in shared memory: no pointers. Fields that a collective does not use are 0.
struct CallRecord {
  Collective kind;
  hvd_type type;
  hvd_op op;
  std::int32_t root;
  std::uint64_t count;        // elements; for an allgather this rank's rows
  std::uint64_t row_size;     // allgather
  std::uint64_t output_rows;  // allgather: how many rows fit into this rank's output
  std::uint64_t name_hash;    // of the whole name; 0 without one
  char name[kNameBytes];      // as much as fits; "" without one
  char fault[kFaultBytes];    // why this rank cannot take part; "" when it can
};

// A record with a name (nullptr: none), all else 0.
CallRecord make_record(Collective kind, const char* name);

// `allreduce "grad.3"`, for messages.
std::string describe_call(const CallRecord& record);

// The error that this set of calls is, one record a rank: a rank with a fault, or ranks that called
// different things. Nothing when they fit together. All ranks get the same answer, as they see the
// same records.
std::optional<Error> find_disagreement(std::span<const CallRecord* const> records);

}  // namespace libhvd
