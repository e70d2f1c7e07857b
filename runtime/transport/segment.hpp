// The memory that the ranks of one host share. What is where in it: segment_layout.hpp.
//
// It has a block for every rank of the job. This host's bridge (bridge.hpp) writes the blocks of
// ranks on other hosts, which makes the segment a replica: readers see no difference. There are two
// lanes of such blocks, so that two threads of a rank can each go in step with their peers. The
// first lane carries the calls in the program's order, the last one the engine (a process set has
// only one lane, its engine's). The block of a rank in a lane has number `lane * size + rank`.
// Facts of the rank are in its block of the first lane.
//
// One rank of the host creates the segment as a file in shared memory (0600), and the other ranks
// there map it. Once all have, the file's name is removed, so the last process that ends leaves
// nothing. A rank proves that it is on the same host by mapping the file and finding the nonce in
// it. A second file without a name (memory_file.hpp) takes what the first one has no room for:
// memory that ranks share, or all of the segment, and then the first file stays empty.
//
// A lock on one byte of the file shows whether a peer's process lives (fcntl F_SETLK, POSIX record
// locks). The kernel drops the lock when the process ends or calls exec, in any way. A forked child
// does not inherit it, and unlike a pid it cannot pass to another process.
//
// A segment may also be anonymous: for ranks that are threads (tests), and for the only rank of a
// job.
//
// Each rank's process has one object, which any of its threads may use after the wire-up. Nothing
// here waits for another rank, except where it says so.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "transport/doorbell.hpp"
#include "transport/failure.hpp"
#include "transport/memory_file.hpp"
#include "transport/segment_layout.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

// How other ranks find a segment and recognise it.
struct SegmentName {
  std::string path;
  Nonce nonce{};
};

// A new, empty file in shared memory, under a name that no one can guess. A rank that sees a file
// of that name is on the same host. The destructor removes the file, unless it became a segment.
class SegmentFile {
 public:
  // Creates it in `directory`; the name contains `job_id`. Error: the directory cannot be written.
  static Result<SegmentFile> create(const std::string& directory, const std::string& job_id);

  SegmentFile() = default;  // empty
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
  bool named_ = false;  // this object has made the file, and its name is still there
};

// Where a rank is. The ranks exchange these in the wire-up.
struct RankLocation {
  int host = 0;
  std::string host_name;
  std::uint32_t pid = 0;
};

class Bridge;

class Segment {
 public:
  // Makes a segment for ranks of this process only. In it all ranks are always alive.
  static Result<Segment> anonymous(const SegmentShape& shape);

  // Makes the file the segment of these ranks, or a file without a name if the first one has no
  // room. Error: there is no room anywhere (the message says how much is needed).
  static Result<Segment> create(SegmentFile file, const SegmentShape& shape);
  // Creates the file and the segment.
  static Result<Segment> create(const std::string& directory, const std::string& job_id,
                                const SegmentShape& shape);

  // Maps what another rank has created for `ranks` ranks. Error: HVD_ERROR_UNSUPPORTED if there is
  // no such file here, or it is another one: this rank is on another host.
  static Result<Segment> open(const SegmentName& name, int ranks);

  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();  // removes the names that it still has

  const SegmentName& name() const { return file_.name(); }
  int size() const { return static_cast<int>(header().size); }

  // Sets the numbers by which messages call the ranks; at first it is their order here. Only the
  // creator may call it, before others open the segment.
  void set_numbers(const std::vector<int>& numbers);
  int number(int rank) const { return static_cast<int>(block(rank).number); }

  // Announces this process as `rank`: its pid, the lock that shows that it lives, and the
  // processors on which it may run. Error: the lock cannot be taken.
  Result<void> announce(int rank);

  // Returns how many ranks of this host share a processor, rounded up, by the processors of those
  // that have announced themselves. If it is more than one, a rank that waits slows down the rank
  // that it waits for.
  int ranks_per_processor() const;

  // Declares that there are other hosts and that `rank` will run the bridge. Only that rank may
  // call it, before others open the segment. Error: there can be no doorbell.
  Result<void> add_bridge(int rank);
  // Sets where all ranks are, and which host this is. The same rank calls it, before any
  // collective.
  void set_places(const std::vector<RankLocation>& places, int own_host);

  // Adds memory in which the ranks of this host show each other what goes to other hosts. `bytes`:
  // for each lane. Only the bridge's rank calls it. Error: there is no room.
  Result<void> add_staging(std::size_t bytes);
  // Maps it. The other ranks call it, after add_staging().
  Result<void> map_staging();
  std::span<std::byte> staging(int lane) const;

  // Returns whether the process that announced itself as `rank` still runs. It must not be this
  // rank. Ranks on other hosts are always alive here; their bridges watch them.
  bool alive(int rank) const;

  // Returns whether ranks here cannot open each other's files by /proc/PID/fd. The same on all
  // ranks after the wire-up.
  bool memory_is_private() const {
    return header().memory_is_private.load(std::memory_order_relaxed) != 0;
  }

  // Ranges of the files after the blocks, for memory that ranks share (process_memory.hpp), in
  // whole pages. Error: there is no room.
  Result<std::uint64_t> reserve_range(std::size_t bytes);
  Result<Mapping> map_range(std::uint64_t range, std::size_t bytes) const;
  void release_range(std::uint64_t range, std::size_t bytes);

  // Removes the names of the files. Call it when all ranks have mapped the segment.
  void remove_name();

  // Publishes a step: wakes all ranks that wait for what was written into the block.
  void publish(int block_number, std::uint32_t step);
  // Publishes a step for which the rank has filled its post of that step, not its area. On one host
  // only, and not in the second lane.
  void publish_post(int block_number, std::uint32_t step);
  // The same as publish() for a step of this host alone.
  void publish_on_host(int block_number, std::uint32_t step);
  void set_left(int rank);

  // Sleeps until a rank publishes in the second lane, wake() is called, or `most_ns` are over. Does
  // not sleep if one of these happens before, or `ready` returns true.
  void wait_idle(const std::function<bool()>& ready, long most_ns);
  void wake();

  // Sets what this is a part of, for the segment of a process set: the job's segment, and each
  // rank's number in it. Call it before other threads use this segment.
  void set_job(std::shared_ptr<Segment> job, std::vector<int> ranks);
  // Records the failure, unless there is one already, and wakes the ranks that wait in a step. Safe
  // in a forked child. A death in a process set is recorded in the job first: ranks of the set may
  // end because of it, and the others would take one of these for the cause.
  void set_failure(FailureKind kind, int rank);
  std::optional<Failure> failure() const;
  // Sets what knows more of a failure than describe_failure(); it returns nullopt if it does not,
  // and may wait a moment. Call it before other threads use this segment.
  using Explain = std::function<std::optional<std::string>(const Failure& failure)>;
  void set_explain(Explain explain) { explain_ = std::move(explain); }
  // Returns the text of an error that the failure causes, also in a process set.
  std::string describe(const Failure& failure) const;
  // Reports that the bridge has sent the failure to the other hosts. The bridge calls it.
  void set_failure_sent();
  // Waits for that, `most_ns` at most, if this rank runs the bridge and there is a failure; also
  // for the job's. The rank may end after the failure: then the other hosts would first see that
  // this rank has died.
  void wait_until_failure_is_sent(int rank, std::uint64_t most_ns);
  bool failed() const { return header().failure.load(std::memory_order_acquire) != 0; }

  // Returns the rank here that runs the bridge, or nullopt if all ranks are on this host.
  std::optional<int> bridge() const;
  bool has_bridge() const { return header().bridge != 0; }
  // The bridge if it is in this process; the bridge sets it.
  void set_bridge_here(Bridge* bridge) { bridge_here_->store(bridge, std::memory_order_release); }
  Bridge* bridge_here() const { return bridge_here_->load(std::memory_order_acquire); }
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
  // Only if the layout has posts.
  PostSlot& post(int number, std::uint32_t step) const {
    return *reinterpret_cast<PostSlot*>(mapping_.data() + layout_.post(number, step));
  }
  Area area(int number, std::uint32_t step) const {
    AreaHead& head = block(number).areas[step % 2];
    return {head.header, head.used, mapping_.data() + layout_.input(number, step % 2),
            mapping_.data() + layout_.result(number, step % 2)};
  }
  // Returns the input areas of all ranks in a lane as one, for a step in which one rank alone shows
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

  // The file of a range that reserve_range() has returned, and where it begins there.
  struct FileRange {
    int file;
    std::uint64_t begin;
  };
  FileRange file_range(std::uint64_t range) const;
  void prove_memory();
  void find_memory();

  std::string doorbell_path() const { return name().path + ".doorbell"; }
  void ring();

  SegmentFile file_;   // empty if the segment is anonymous
  MemoryFile memory_;  // empty if it cannot be made or reached
  SegmentLayout layout_;
  Mapping mapping_;
  Mapping staging_;    // empty without other hosts
  Doorbell doorbell_;  // the same
  bool bell_named_ = false;
  std::shared_ptr<Segment> job_;  // null: this is the job's
  std::vector<int> job_ranks_;    // by rank
  Explain explain_;               // empty: there is none
  // A pointer, because a segment can be moved.
  std::unique_ptr<std::atomic<Bridge*>> bridge_here_ =
      std::make_unique<std::atomic<Bridge*>>(nullptr);
};

}  // namespace libhvd
