// The memory that the ranks of one host share, and what stands where in it.
//
// In it stands a block for every rank of the job (segment_layout.hpp). Those of the ranks on other
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

#include "base/fd.hpp"
#include "base/result.hpp"
#include "transport/doorbell.hpp"
#include "transport/failure.hpp"
#include "transport/memory_file.hpp"
#include "transport/segment_layout.hpp"

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
  Outcome announce(int rank);

  // Whether the ranks here that have announced themselves have fewer processors than they are, so
  // that who waits holds up whom it waits for.
  bool crowded() const;

  // When there are other hosts: `rank` will run the bridge. By it, before others open the segment.
  Outcome add_bridge(int rank);
  // Says where all ranks are, and which host this is. By the same, before any collective.
  void set_places(const std::vector<RankPlace>& places, int own_host);

  // Memory in which the ranks of this host show each other what goes to other hosts: as many bytes
  // for each lane. By who runs the bridge. Error: there is no room.
  Outcome add_staging(std::size_t bytes);
  // By the others, after it.
  Outcome map_staging();
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
