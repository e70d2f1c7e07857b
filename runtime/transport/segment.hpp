// The memory that the ranks of one host share, and what stands where in it.
//
// In it stands a block for every rank of the job (SegmentLayout). Those of the ranks on other
// hosts are written by this host's bridge (bridge.hpp), which makes the segment a replica: readers
// see no difference. There are two lanes of such blocks, so that two threads of a rank can each go
// in step with their peers: one carries the calls in the program's order, the last one the engine
// (the only one of a process set). The block of a rank in a lane is number `lane * size + rank`;
// what is the rank's and not the lane's stands in the first one's.
//
// One rank of the host creates it as a file of its own in shared memory (0600), the others there
// map it, and once all have, the file's name is removed: what is left is gone with the last
// process. That a rank is on the same host is proven by mapping the file and finding the nonce in
// it. Beside it there is a file without a name (memory_file.hpp), for what the first one has no
// room for: memory that ranks share, or all of it, and then the file stays empty.
//
// Whether a peer's process lives is told by a lock that it holds on one byte of the file (fcntl
// F_SETLK, POSIX record locks). The kernel drops the lock when the process ends or calls exec, in
// whatever way; a forked child does not inherit it; and unlike a pid it cannot be taken over.
//
// A segment may also be anonymous: ranks as threads (tests) and the only rank of a job.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "transport/doorbell.hpp"
#include "transport/failure.hpp"
#include "transport/memory_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// What stands in a segment, and where: as values, whatever the size of the system's pages.
//
// First the header, then a block for each rank in each lane, then the input areas of all blocks,
// one set for each parity of steps, then likewise the result areas. Those of one lane and parity
// lie one after the other, so that a rank that shows something alone can use the room of all.

// Bytes of one rank's contribution that are in flight at a time, at most. Input and result of two
// steps of every rank stay within a second-level cache.
inline constexpr std::size_t kChunkBytes = 64 * 1024;
// At least; a record fits in.
inline constexpr std::size_t kLeastChunkBytes = 1024;

inline constexpr std::size_t kCacheLine = 64;

inline constexpr int kLanes = 2;

using Nonce = std::array<std::uint8_t, 16>;

// How much of what a rank shows its peers will read after the step; only that travels to other
// hosts. The input counts from its start.
struct Used {
  std::uint32_t input = 0;
  std::uint32_t result_begin = 0;
  std::uint32_t result_end = 0;
  std::uint32_t wide = 0;  // 1: the input stands in the room of all ranks (Segment::wide)
};

inline constexpr std::size_t kHostBytes = 64;
inline constexpr std::size_t kMostProcessors = 1024;

// What peers read first of a step: with its number it fills one cache line, so that a small call
// moves no other. The layer above gives the bytes their meaning.
inline constexpr std::size_t kBriefBytes = 56;
struct alignas(8) StepHeader {
  std::byte bytes[kBriefBytes];
};

// The beginning of what a rank writes before a step and its peers read after it.
struct AreaHead {
  alignas(kCacheLine) std::atomic<std::uint32_t> step;  // the last one that it was published for
  StepHeader header;
  alignas(kCacheLine) Used used;
};

// All of it. There are result areas only where a layout has them.
struct Area {
  StepHeader& header;
  Used& used;
  std::byte* input;
  std::byte* result;
};

// One rank's part of a lane. A step uses the area of its own parity. Aligned to the two cache lines
// that processors fetch together.
struct alignas(2 * kCacheLine) RankBlock {
  // The number of the last step that this rank has published; also a futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  // Peers that sleep on it.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers;
  // The same for steps of the ranks of this host alone, of which others hear nothing.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived_on_host;
  alignas(kCacheLine) std::atomic<std::uint32_t> sleepers_on_host;
  // The rank's, in the first lane only.
  alignas(kCacheLine) std::atomic<std::uint32_t> left;  // 1 after a clean shutdown
  std::atomic<std::uint32_t> pid;                       // for messages only
  // Written while the ranks meet, only read after.
  std::uint32_t number;        // what messages call the rank: its rank in the job
  std::uint32_t host;          // index
  char host_name[kHostBytes];  // "" when all ranks are on one host
  alignas(kCacheLine) AreaHead areas[2];
};

// What a segment is made for. Ranks of a job that spans hosts must all use the same.
struct SegmentShape {
  // On one host.
  SegmentShape(int of_ranks, int of_lanes = kLanes) : ranks(of_ranks), lanes(of_lanes) {}
  // The segments of a job on several hosts hold what every rank of the job shows. They have about
  // 16 MiB for that, or the least chunk for each rank where that is more.
  static SegmentShape across_hosts(int ranks, int lanes = kLanes);

  int ranks;
  int lanes;
  std::size_t chunk = kChunkBytes;
  bool has_results = true;
};

struct alignas(4096) SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t size;
  std::uint32_t lanes;
  std::uint32_t chunk;
  std::uint32_t has_results;
  Nonce nonce;
  std::uint32_t host;                            // index of the host whose segment this is
  std::uint32_t bridge;                          // 1 + the rank here that runs the bridge; 0: none
  std::atomic<std::uint64_t> end;                // of the file, with all ranges ever reserved
  std::atomic<std::uint64_t> memory_end;         // the same of the file without a name
  std::atomic<std::uint32_t> memory_is_private;  // 1: a rank cannot reach that one
  std::uint64_t staging;                         // a range; 0: there is none
  std::uint64_t staging_bytes;                   // of all lanes
  // The processors on which ranks of this host may run, a bit each.
  std::array<std::atomic<std::uint64_t>, kMostProcessors / 64> processors;
  std::atomic<std::uint64_t> failure;  // the first that was found, packed; 0: none
  // 1: the bridge has passed it on, as far as it can; a futex word.
  std::atomic<std::uint32_t> failure_is_told;
  // The bridge is about to sleep: who publishes something must ring its doorbell.
  alignas(kCacheLine) std::atomic<std::uint32_t> bridge_sleeps;
  // How many wait for anybody in the second lane, and what they sleep on.
  std::atomic<std::uint32_t> idle;
  alignas(kCacheLine) std::atomic<std::uint32_t> woken;
};

static_assert(offsetof(AreaHead, header) + sizeof(StepHeader) == kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A pure function of the shape and the size of a page.
class SegmentLayout {
 public:
  explicit SegmentLayout(const SegmentShape& shape, std::size_t page = page_bytes());

  const SegmentShape& shape() const { return shape_; }
  int blocks() const { return shape_.lanes * shape_.ranks; }
  std::size_t page() const { return page_; }
  std::size_t bytes() const { return bytes_; }  // of all, in whole pages

  std::size_t block(int number) const {
    return sizeof(SegmentHeader) + static_cast<std::size_t>(number) * block_stride_;
  }
  std::size_t input(int number, std::uint32_t parity) const {
    return inputs_ + area_stride_ * index(number, parity);
  }
  std::size_t result(int number, std::uint32_t parity) const {
    return shape_.has_results ? results_ + area_stride_ * index(number, parity)
                              : input(number, parity);
  }
  // The input areas of all ranks in a lane begin with that of its first rank.
  std::size_t wide_bytes() const { return area_stride_ * static_cast<std::size_t>(shape_.ranks); }

 private:
  std::size_t index(int number, std::uint32_t parity) const {
    return static_cast<std::size_t>(blocks()) * parity + static_cast<std::size_t>(number);
  }

  SegmentShape shape_;
  std::size_t page_;
  std::size_t block_stride_;
  std::size_t area_stride_;
  std::size_t inputs_;
  std::size_t results_;
  std::size_t bytes_;
};

// What the first step of a call says about it stands in the input area; the layer above gives the
// bytes their meaning.
inline constexpr std::size_t kRecordBytes = 512;
static_assert(kRecordBytes <= kLeastChunkBytes);

// How a segment is found and recognised.
struct SegmentName {
  std::string path;
  Nonce nonce{};
};

// A new, empty file in shared memory under a name that nobody can guess. Whoever sees a file of
// that name is on the same host. Removes it at its end, unless it has become a segment.
class SegmentFile {
 public:
  // In `directory`; the name contains `job_id`. Error: the directory cannot be written.
  static Result<SegmentFile> create(const std::string& directory, const std::string& job_id);

  SegmentFile() = default;  // none
  SegmentFile(SegmentFile&& other) noexcept;
  SegmentFile& operator=(SegmentFile&&) noexcept;
  ~SegmentFile() { remove_name(); }

  const SegmentName& name() const { return name_; }
  std::string directory() const { return name_.path.substr(0, name_.path.rfind('/')); }
  void remove_name();

 private:
  friend class Segment;
  SegmentFile(Fd file, SegmentName name, bool named)
      : file_(std::move(file)), name_(std::move(name)), named_(named) {}

  Fd file_;
  SegmentName name_;
  bool named_ = false;  // we have made it, and its name is still there
};

// Where a rank is, as the ranks have told each other.
struct RankPlace {
  int host = 0;
  std::string host_name;
  std::uint32_t pid = 0;
};

class Segment {
 public:
  // For ranks of this process only; always alive.
  static Result<Segment> anonymous(const SegmentShape& shape);

  // Makes the file the segment of these ranks, or a file without a name where it has no room.
  // Error: there is no room anywhere (then the message says how much is needed).
  static Result<Segment> create(SegmentFile file, const SegmentShape& shape);
  // Both in one.
  static Result<Segment> create(const std::string& directory, const std::string& job_id,
                                const SegmentShape& shape);

  // Maps what another rank has created for so many ranks. HVD_ERROR_UNSUPPORTED: there is no such
  // file here, or it is another one: this rank is on another host.
  static Result<Segment> open(const SegmentName& name, int ranks);

  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();  // removes the names that it still has

  const SegmentName& name() const { return file_.name(); }
  int size() const { return static_cast<int>(header().size); }

  // What messages call the ranks; at first, by their order here. By who has created it, before
  // others open it.
  void set_numbers(const std::vector<int>& numbers);
  int number(int rank) const { return static_cast<int>(block(rank).number); }

  // Shows this process as `rank`: its pid, the lock that says that it lives, and where it may run.
  Result<void> announce(int rank);

  // How many ranks of this host share a processor, rounded up, by what those that have announced
  // themselves say. Where it is more than one, who waits holds up whom it waits for.
  int ranks_per_processor() const;

  // When there are other hosts: `rank` will run the bridge. By it, before others open the segment.
  Result<void> add_bridge(int rank);
  // Says where all ranks are, and which host this is. By the same, before any collective.
  void set_places(const std::vector<RankPlace>& places, int own_host);

  // Memory in which the ranks of this host show each other what goes to other hosts: as many bytes
  // for each lane. By who runs the bridge. Error: there is no room.
  Result<void> add_staging(std::size_t bytes);
  // By the others, after it.
  Result<void> map_staging();
  std::span<std::byte> staging(int lane) const;

  // Whether the process that announced itself as `rank` still runs. Not for one's own rank. Ranks
  // on other hosts are the bridge's concern, and always alive here.
  bool alive(int rank) const;

  // Ranges of the files behind the blocks, for memory that ranks share (shared_memory.hpp), in
  // whole pages. Error: there is no room.
  Result<std::uint64_t> reserve_range(std::size_t bytes);
  Result<Mapping> map_range(std::uint64_t range, std::size_t bytes) const;
  void release_range(std::uint64_t range, std::size_t bytes);

  // All have mapped it: the names are not needed any more.
  void remove_name();

  // Tells everybody that waits for it that what was written into the block for this step is there.
  void publish(int block_number, std::uint32_t step);
  // The same for a step of this host alone.
  void publish_on_host(int block_number, std::uint32_t step);
  void set_left(int rank);

  // Sleeps until somebody publishes in the second lane, wake() is called, or `most_ns` are over;
  // not at all when one of these, or `ready`, comes in between.
  void wait_idle(const std::function<bool()>& ready, long most_ns);
  void wake();

  // Keeps the failure unless there is one already, and wakes everybody. Safe in a forked child.
  void set_failure(FailureKind kind, int rank);
  std::optional<Failure> failure() const;
  // By the bridge, and by its rank, which may end because of the failure: until the bridge has
  // passed it on, or `most_ns` are over. Else the other hosts would hear first that this rank died.
  void set_failure_told();
  void wait_until_failure_is_told(std::uint64_t most_ns);
  bool failed() const { return header().failure.load(std::memory_order_acquire) != 0; }

  // The rank here that runs the bridge; nothing when all ranks are on this host.
  std::optional<int> bridge() const;
  const Doorbell& doorbell() const { return doorbell_; }
  std::vector<int> ranks_on(int host) const;
  std::vector<int> hosts() const;  // by rank

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(mapping_.data()); }
  const SegmentLayout& layout() const { return layout_; }
  int lanes() const { return layout_.shape().lanes; }
  int blocks() const { return layout_.blocks(); }
  RankBlock& block(int number) const {
    return *reinterpret_cast<RankBlock*>(mapping_.data() + layout_.block(number));
  }
  Area area(int number, std::uint32_t step) const {
    AreaHead& head = block(number).areas[step % 2];
    return {head.header, head.used, mapping_.data() + layout_.input(number, step % 2),
            mapping_.data() + layout_.result(number, step % 2)};
  }
  // The input areas of all ranks in a lane as one, for a step in which one rank alone shows
  // something.
  std::span<std::byte> wide(int lane, std::uint32_t step) const {
    return {mapping_.data() + layout_.input(lane * size(), step % 2), layout_.wide_bytes()};
  }

 private:
  Segment(SegmentFile file, MemoryFile memory, const SegmentLayout& layout, Mapping mapping)
      : file_(std::move(file)),
        memory_(std::move(memory)),
        layout_(layout),
        mapping_(std::move(mapping)) {}

  // Where a range lies that reserve_range() has given out.
  struct FilePlace {
    int file;
    std::uint64_t begin;
  };
  FilePlace place_of(std::uint64_t range) const;
  void prove_memory();
  void find_memory();

  std::string doorbell_path() const { return name().path + ".doorbell"; }
  void ring();

  SegmentFile file_;   // none when anonymous
  MemoryFile memory_;  // none where it cannot be
  SegmentLayout layout_;
  Mapping mapping_;
  Mapping staging_;  // with other hosts, as what follows
  Doorbell doorbell_;
  bool bell_named_ = false;
};

}  // namespace libhvd
