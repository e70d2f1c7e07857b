#include "checkpoint/load.hpp"

#include "base/thread.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/block_map.hpp"
#include "checkpoint/folder.hpp"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace libhvd::checkpoint {
namespace {

// Opens the checkpoint on this rank. Returns nullopt if this rank does not see it, or sees another
// one under its path (in a container, for example).
std::optional<CheckpointFile> open_same(const Found& found) {
  const std::size_t slash = found.path.rfind('/');
  const auto name = FileName::parse(found.path.substr(slash + 1));
  if (!name) return std::nullopt;
  auto file = CheckpointFile::open(found.path.substr(0, slash), *name);
  if (!file.ok() || encode_index(file->index()) != encode_index(found.index)) return std::nullopt;
  return std::move(*file);
}

// Reads all blocks to their destinations.
Result<void> read_all(const CheckpointFile& file, const BlockMap& map) {
  try {
    std::vector<std::byte> room;  // for blocks that are not within one part
    for (std::uint64_t block = 0; block < map.blocks(); ++block) {
      std::byte* const direct = map.direct(block);
      if (direct == nullptr) room.resize(map.length(block));
      HVD_CHECK(file.read_block(block, direct != nullptr ? direct : room.data()));
      if (direct == nullptr) map.scatter(block, room.data());
    }
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, exception.what());
  }
  return {};
}

// How many blocks the reader may be ahead. They should still be in the processor's cache when they
// are broadcast.
constexpr std::uint64_t kAhead = 6;

// Broadcast instead of a number of blocks.
constexpr std::int64_t kDamaged = -1;

// Reads and checks blocks in order, on a thread of its own, up to kAhead before they are used.
class BlockReader {
 public:
  BlockReader(const CheckpointFile& file, const BlockMap& map, std::uint64_t blocks)
      : file_(file), map_(map), blocks_(blocks) {
    rooms_.resize(kAhead);
    auto started = start_thread("reads a checkpoint", [this] { run(); });
    if (started.ok())
      thread_ = std::move(*started);
    else
      failure_ = started.error().message;
  }
  ~BlockReader() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // Waits until more than the first `done` blocks are ready, and returns how many are. Returns
  // `done` if reading failed.
  std::uint64_t ready_after(std::uint64_t done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_ > done || failure_; });
    return ready_;
  }

  // Lets the reader reuse the room of the first `used` blocks.
  void release(std::uint64_t used) {
    {
      const std::lock_guard lock(mutex_);
      used_ = used;
    }
    changed_.notify_all();
  }

  // Returns the address of a block that is ready.
  std::byte* block(std::uint64_t number) {
    std::byte* const direct = map_.direct(number);
    return direct != nullptr ? direct : room(number);
  }

  // Returns why reading failed. Call it only after ready_after() has shown that.
  const std::string& failure() const { return *failure_; }

 private:
  std::byte* room(std::uint64_t number) { return rooms_[number % kAhead].data(); }

  void run() {
    for (std::uint64_t number = 0; number < blocks_; ++number) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return number < used_ + kAhead || stop_; });
        if (stop_) return;
      }
      const Result<void> outcome = read(number);
      {
        const std::lock_guard lock(mutex_);
        if (outcome.ok()) {
          ready_ = number + 1;
        } else {
          failure_ = outcome.error().message;
        }
      }
      changed_.notify_all();
      if (!outcome.ok()) return;
    }
  }

  Result<void> read(std::uint64_t number) {
    try {
      std::byte* to = map_.direct(number);
      if (to == nullptr) {
        rooms_[number % kAhead].resize(map_.length(number));
        to = room(number);
      }
      return file_.read_block(number, to);
    } catch (const std::exception& exception) {
      return fail(HVD_ERROR_SYSTEM, exception.what());
    }
  }

  const CheckpointFile& file_;
  const BlockMap& map_;
  const std::uint64_t blocks_;
  std::vector<std::vector<std::byte>> rooms_;  // for blocks that are not within one part

  std::mutex mutex_;  // guards ready_, used_, failure_ and stop_
  std::condition_variable changed_;
  std::uint64_t ready_ = 0;
  std::uint64_t used_ = 0;
  std::optional<std::string> failure_;
  bool stop_ = false;

  std::thread thread_;
};

Result<void> broadcast_block(Communicator& communicator, std::byte* block, std::uint64_t bytes) {
  return communicator.broadcast(block, bytes, HVD_UINT8, 0, call_options());
}

// Rank 0's side: announces how many blocks follow, and broadcasts them.
Result<std::optional<std::string>> send(Communicator& communicator, const BlockMap& map,
                                        std::uint64_t blocks, const CheckpointFile& file) {
  BlockReader reader(file, map, blocks);
  for (std::uint64_t done = 0; done < blocks;) {
    const std::uint64_t ready = reader.ready_after(done);
    const auto count = ready > done ? static_cast<std::int64_t>(ready - done) : kDamaged;
    HVD_TRY([[maybe_unused]] const auto announced,
            share_number(communicator, static_cast<std::uint64_t>(count)));
    if (count == kDamaged) return std::optional(reader.failure());
    for (; done < ready; ++done) {
      std::byte* const block = reader.block(done);
      HVD_CHECK(broadcast_block(communicator, block, map.length(done)));
      if (map.direct(done) == nullptr) map.scatter(done, block);
      reader.release(done + 1);
    }
  }
  return std::optional<std::string>();
}

// The side of the other ranks.
Result<std::optional<std::string>> receive(Communicator& communicator, const BlockMap& map,
                                           std::uint64_t blocks) {
  std::vector<std::byte> room;
  for (std::uint64_t done = 0; done < blocks;) {
    HVD_TRY(const std::uint64_t number, share_number(communicator, 0));
    const auto count = static_cast<std::int64_t>(number);
    if (count == kDamaged) return std::optional<std::string>("");
    for (const std::uint64_t ready = done + number; done < ready; ++done) {
      std::byte* const direct = map.direct(done);
      if (direct == nullptr) room.resize(map.length(done));
      HVD_CHECK(broadcast_block(communicator, direct != nullptr ? direct : room.data(),
                                map.length(done)));
      if (direct == nullptr) map.scatter(done, room.data());
    }
  }
  return std::optional<std::string>();
}

// Broadcasts rank 0's blocks. The result is that of load_data().
Result<std::optional<std::string>> stream_data(Communicator& communicator, const Index& index,
                                               const CheckpointFile* file,
                                               const Destinations& destinations) {
  const BlockMap map(index, destinations);
  const std::uint64_t blocks = index.blocks.count();
  return file != nullptr ? send(communicator, map, blocks, *file)
                         : receive(communicator, map, blocks);
}

}  // namespace

Result<std::optional<std::string>> load_data(Communicator& communicator, const Found& found,
                                             const CheckpointFile* file,
                                             const Destinations& destinations) {
  if (communicator.on_one_host()) {
    const std::optional<CheckpointFile> opened = file == nullptr ? open_same(found) : std::nullopt;
    const CheckpointFile* const own = opened ? &*opened : file;
    HVD_TRY(const bool all, true_everywhere(communicator, own != nullptr));
    if (all) {
      HVD_TRY(const auto failed,
              first_failure(communicator, read_all(*own, BlockMap(found.index, destinations))));
      return failed ? std::optional(failed->message) : std::nullopt;
    }
  }
  return stream_data(communicator, found.index, file, destinations);
}

}  // namespace libhvd::checkpoint
