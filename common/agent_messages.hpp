// What a member of a job and the agent of its host say to each other, if the job continues when
// a rank is lost (hvdrun --min-np).
//
// A generation is one membership of the job, numbered from 1. A member is a process of the job; its
// number never changes and is never used again. Its rank is its number in a generation.
//
// Values and pure functions. A member connects to the agent's Unix socket in the job's folder. What
// it reads there is not trusted: decoding accepts any bytes.
#pragma once

#include "common/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace common {

// The environment variables of a member: the path of the agent's socket, and the member's number.
inline constexpr char kAgentVariable[] = "HVD_AGENT";
inline constexpr char kMemberVariable[] = "HVD_MEMBER";
// "1" in a process that is started while the job runs. The variables of ranks (HVD_RANK, ...) are
// then its likely numbers.
inline constexpr char kNewcomerVariable[] = "HVD_NEWCOMER";

// Both ends are of the same version; an agent refuses another one.
inline constexpr std::uint32_t kAgentMessagesVersion = 1;

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
  over,         // the agent's word
  ended,        // another member has ended, or closed its connection
  silent,       // another member's host has sent nothing for a while
  unconnected,  // the wire-up: a member could not connect to another one
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

// A member's numbers, as libhvd's functions return them.
struct MemberNumbers {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
  std::uint32_t cross_rank = 0;
  std::uint32_t cross_size = 1;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 1;

  bool operator==(const MemberNumbers&) const = default;
};

// Returns the numbers of the member with this rank, which `go` must have. Hosts are counted in the
// order of their lowest ranks.
MemberNumbers numbers_in(const GenerationGo& go, std::uint32_t rank);

// ---- Frames

enum class AgentFrameKind : std::uint16_t {
  // member → agent
  hello = 1,  // MemberHello. The first frame; the agent keeps it, and sends the others on
  come,       // MemberCome
  part,       // MemberPart
  plan,       // without payload: a newcomer asks which numbers it is likely to have
  leave,      // without payload: hvd_shutdown
  // agent → member; all come from the launcher
  over = 64,  // GenerationOver
  go,         // GenerationGo
  parts,      // GenerationParts
  planned,    // MemberNumbers
  updated,    // bits u32
  removed,    // text: this member is no longer wanted
};

inline constexpr std::size_t kAgentFrameHeaderSize = 12;
// The most bytes of a payload: of what a member sends, and of what it gets.
inline constexpr std::size_t kMostFromMember = 128u << 10;
inline constexpr std::size_t kMostToMember = 64u << 20;

// `length u32 | kind u16 | 0 u16 | generation u32 | payload`, in little endian. The generation is
// the one that the message is about, or 0.
struct AgentFrame {
  AgentFrameKind kind = AgentFrameKind::hello;
  std::uint32_t generation = 0;
  std::string_view payload;
};

std::string encode_agent_frame(const AgentFrame& frame);

// Cuts frames out of a stream of bytes, as they arrive.
class AgentFrameReader {
 public:
  explicit AgentFrameReader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  void feed(std::string_view bytes) { buffer_ += bytes; }

  enum class Status { frame, need_more, malformed };
  // Takes the next whole frame, if there is one. Its payload is valid until the next call of a
  // function of this object. Malformed: it is longer than allowed, or its header cannot be. The
  // stream is lost then.
  Status next(AgentFrame& frame);

 private:
  std::size_t most_bytes_;
  std::string buffer_;
  std::size_t taken_ = 0;  // of the bytes in buffer_
};

// ---- Payloads. decode_*: nullopt for bytes that are no such payload.

// key (32 bytes) | member u32 | pid u32 | version u32
struct MemberHello {
  std::array<std::uint8_t, 32> key{};  // HVD_JOB_KEY
  std::uint32_t member = 0;
  std::uint32_t pid = 0;
  std::uint32_t version = kAgentMessagesVersion;
};
std::string encode(const MemberHello& hello);
std::optional<MemberHello> decode_hello(std::string_view payload);

// why u8 | failure u8 | 0 u16 | accused u32 | commits u64 | step u64 | record: the rest. The frame
// has last_generation.
std::string encode(const MemberCome& come);
std::optional<MemberCome> decode_come(const AgentFrame& frame);

// exchange u32 | blob: the rest
struct MemberPart {
  std::uint32_t exchange = 0;
  std::string_view blob;
};
std::string encode(const MemberPart& part);
std::optional<MemberPart> decode_part(std::string_view payload);

// kind u8 | 0 u8 | 0 u16 | count u32 | {member u32 | size u32 | text} each. The frame has
// `generation`, as that of the next two.
std::string encode(const GenerationOver& over);
std::optional<GenerationOver> decode_over(const AgentFrame& frame);

// root u32 | count u32 | {member u32 | host u32 | local_rank u32 | size u32 | record} each
std::string encode(const GenerationGo& go);
std::optional<GenerationGo> decode_go(const AgentFrame& frame);

// exchange u32 | count u32 | {size u32 | blob} each
std::string encode(const GenerationParts& parts);
std::optional<GenerationParts> decode_parts(const AgentFrame& frame);

// The eight numbers, u32 each, in their order.
std::string encode(const MemberNumbers& numbers);
std::optional<MemberNumbers> decode_planned(std::string_view payload);

// bits u32
std::string encode_updated(std::uint32_t bits);
std::optional<std::uint32_t> decode_updated(std::string_view payload);

}  // namespace common
