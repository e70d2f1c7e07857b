// What a member of a job and the agent of its host say to each other, if the job continues when
// a rank is lost (hvdrun --min-np). Plain values.
//
// A generation is one membership of the job, numbered from 1. A member is a process of the job; its
// number never changes and is never used again. Its rank is its number in a generation.
#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace common {

inline constexpr std::uint32_t kNoMember = 0xffffffffu;

// The last exchange of a wire-up; see Bootstrap::exchange. The generation is open after it.
inline constexpr std::uint32_t kLastExchange = 3;

enum class ComeReason : std::uint8_t {
  start,   // hvd_init
  failed,  // a collective or the wire-up failed, or `over` came
  asked,   // all members of the last generation have agreed to form the next one
};

// What a member saw before it came with ComeReason::failed.
enum class SeenFailure : std::uint8_t {
  none,
  over,    // the agent's word
  ended,   // another member has ended, or closed its connection
  silent,  // another member's host has sent nothing for a while, or cannot be reached
  other,
};

// A member comes to the next generation.
struct MemberCome {
  std::uint32_t last_generation = 0;  // that it was in; 0: none
  ComeReason why = ComeReason::start;
  SeenFailure failure = SeenFailure::none;
  std::uint32_t accused = kNoMember;  // the member whose end or silence it saw
  std::uint64_t commits = 0;          // of its state
  std::uint64_t step = 0;             // of its training
  std::string record = {};            // what the others are to know of it before the wire-up
};

struct LostMember {
  std::uint32_t member = 0;
  std::string text;  // "was killed by SIGKILL"
};

enum class OverKind : std::uint8_t {
  lost,    // members were lost; there is at least one
  failed,  // a member's collective failed, or its wire-up
};

// The members' last generation is over: all come to this one.
struct GenerationOver {
  std::uint32_t generation = 0;  // the next one
  OverKind kind = OverKind::lost;
  std::vector<LostMember> lost = {};
};

// One member in a generation.
struct GenerationRank {
  std::uint32_t member = 0;
  std::uint32_t host = 0;  // the host's number in the job
  std::uint32_t local_rank = 0;
  std::string record = {};  // MemberCome::record
};

// A generation has all its members: they wire up.
struct GenerationGo {
  std::uint32_t generation = 0;
  std::uint32_t root = 0;                  // the rank with the most commits
  std::vector<GenerationRank> ranks = {};  // in the order of ranks
};

// What all members gave to an exchange, in the order of ranks.
struct GenerationParts {
  std::uint32_t generation = 0;
  std::uint32_t exchange = 0;
  std::vector<std::string> blobs = {};
};

// Bits of `updated`.
inline constexpr std::uint32_t kUpdateAdded = 0x1;    // newcomers are ready
inline constexpr std::uint32_t kUpdateRemoved = 0x2;  // members are to leave

}  // namespace common
