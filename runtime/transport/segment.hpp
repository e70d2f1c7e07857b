// The memory that the ranks of one host share, and what stands where in it.
//
// Rank 0 creates it as a file of its own in shared memory (0600), the others map it, and once all
// have, the file's name is removed: what is left is gone with the last process. That a rank is on
// the same host is proven by mapping the file and finding the nonce in it.
//
// Whether a peer's process lives is told by a lock that it holds on one byte of the file (fcntl
// F_SETLK, POSIX record locks). The kernel drops the lock when the process ends or calls exec, in
// whatever way; a forked child does not inherit it; and unlike a pid it cannot be taken over.
//
// A segment may also be anonymous: ranks as threads (tests) and the only rank of a job.
#pragma once

#include "base/fd.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace libhvd {

// Bytes of one rank's contribution that are in flight at a time. Input and result of two steps of
// every rank stay within a second-level cache.
inline constexpr std::size_t kChunkBytes = 64 * 1024;

inline constexpr std::size_t kCacheLine = 64;

using Nonce = std::array<std::uint8_t, 16>;

// What the first step of a call says about it; the layer above gives the bytes their meaning.
inline constexpr std::size_t kRecordBytes = 512;

// What a rank writes before a step and its peers read after it.
struct Area {
  alignas(kCacheLine) std::byte record[kRecordBytes];
  alignas(kCacheLine) std::byte input[kChunkBytes];
  alignas(kCacheLine) std::byte result[kChunkBytes];
};

// One rank's part of the segment. A step uses the area of its own parity.
struct alignas(4096) RankBlock {
  // The number of the last step that this rank has published; also a futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  // Peers that sleep on it.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;
  alignas(kCacheLine) std::atomic<std::uint32_t> left;  // 1 after a clean shutdown
  std::atomic<std::uint32_t> pid;                       // for messages only
  alignas(kCacheLine) Area areas[2];
};

struct alignas(4096) SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t size;
  Nonce nonce;
  // The first failure that any rank has found (see lockstep.hpp); 0: none.
  std::atomic<std::uint64_t> failure;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// How rank 0's segment is found and recognised.
struct SegmentName {
  std::string path;
  Nonce nonce{};
};

class Segment {
 public:
  // For ranks of this process only; always alive.
  static Result<Segment> anonymous(int size);

  // A new file in `directory`, whose name contains `job_id`. Error: the directory cannot be
  // written, or has no room for it (then the message says how much is needed).
  static Result<Segment> create(const std::string& directory, const std::string& job_id, int size);

  // Maps what another rank has created. HVD_ERROR_UNSUPPORTED: there is no such file here, or it
  // is another one: this rank is on another host.
  static Result<Segment> open(const SegmentName& name, int size);

  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();  // removes the file's name if it still has one

  const SegmentName& name() const { return name_; }
  int size() const { return static_cast<int>(header().size); }

  // Shows this process as `rank`: its pid, and the lock that says that it lives.
  Outcome announce(int rank);

  // Whether the process that announced itself as `rank` still runs. Not for one's own rank.
  bool alive(int rank) const;

  // All have mapped it: the name is not needed any more.
  void remove_name();

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(mapping_.data()); }
  RankBlock& block(int rank) const;

 private:
  Segment(Fd file, Mapping mapping, SegmentName name, bool named)
      : file_(std::move(file)),
        mapping_(std::move(mapping)),
        name_(std::move(name)),
        named_(named) {}

  Fd file_;  // empty when anonymous
  Mapping mapping_;
  SegmentName name_;
  bool named_ = false;  // we created it and its name has not been removed
};

}  // namespace libhvd
