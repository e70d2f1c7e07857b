// Saving a checkpoint: the copy of the state, its writing in the background, the folder's archive.
#pragma once

#include "base/result.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace libhvd::checkpoint {

// A copy of the state, or of a rank's share of it, as it will lie in the file. The memory is kept
// and used again, so that only the first save pays for getting its pages.
//
// One owner, one thread; whoever writes the copy reads it only until the next take().

class Snapshot {
 public:
  // Copies bytes begin … end of the data; `parts` is lay_out() of the items. Error: no memory.
  Result<void> take(std::span<const Item> items, std::span<const Part> parts, std::uint64_t begin,
                    std::uint64_t end);

  // Of byte `begin`; on the boundary of a page.
  const std::byte* data() const { return memory_.data(); }

 private:
  Mapping memory_;
};

// One piece of work at a time on a thread of its own, which gives way to training: a low
// priority, no signals. It inherits the cores that its starter is bound to.
//
// One owner; start() and wait() from one thread at a time.

class Background {
 public:
  Background() = default;
  ~Background() { static_cast<void>(wait()); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Only when nothing runs: wait() first. What `work` throws is an error too. Error: no thread.
  Result<void> start(std::function<Result<void>()> work);

  // The outcome of what was started last; asked again, or when nothing was: success.
  Result<void> wait();

  bool running() const { return thread_.joinable(); }

 private:
  std::thread thread_;
  std::optional<Error> error_;  // the thread's, until it is joined
};

// Rank 0's knowledge of a folder: what checkpoints are in it, what may go, what a save is numbered.
//
// Used by one thread at a time: rank 0's, and while a save is being written that thread.

struct Retention {
  std::int64_t keep_last = 3;  // negative: all
  hvd_best best = HVD_BEST_NONE;
};

class Archive {
 public:
  Archive(std::string folder, Retention retention)
      : folder_(std::move(folder)), retention_(retention) {}

  // Reads what is in the folder. Files whose index cannot be read are not counted among those to
  // keep, and are never deleted.
  Result<void> read();

  // Removes parts that belong to no checkpoint.
  void remove_stray_parts();

  // A number that no save in the folder has.
  std::uint64_t next_save() { return ++last_save_; }

  // A new checkpoint is there, durably. Says which ones are superfluous now.
  std::vector<Kept> add(const Kept& added);

  // Its data turned out to be damaged: it is no longer one of those to keep.
  void forget(const FileName& name);

 private:
  std::string folder_;
  Retention retention_;
  std::vector<Kept> kept_;
  std::uint64_t last_save_ = 0;
};

// Deletes the files of these checkpoints. What cannot be deleted is named on stderr and stays. Any
// thread.
void delete_checkpoints(const std::string& folder, const std::vector<Kept>& superfluous);

// The checkpoints of a folder in the order in which a load tries them.
class Search {
 public:
  // `by`: HVD_BEST_NONE for the newest first. Error: the folder cannot be read; or the best is
  // asked for and there are checkpoints, but none with a finite metric.
  static Result<Search> begin(const std::string& folder, hvd_best by);

  struct Candidate {
    FileName name;
    std::string path;
    CheckpointFile file;
  };

  // The next that is whole as far as its index tells; what is not is skipped, with a line on
  // stderr. What another job deletes meanwhile is not counted: it has written newer ones. Nothing:
  // the folder has no checkpoint. Error: it has some, and none (further) can be read.
  Result<std::optional<Candidate>> next();

  // The candidate last given has turned out to be bad.
  void skip(const Candidate& candidate, const std::string& why);

 private:
  Search(std::string folder, hvd_best by) : folder_(std::move(folder)), by_(by) {}
  Result<void> look();
  void tell_skipped(const std::string& path, const std::string& why);

  std::string folder_;
  hvd_best by_;
  std::vector<FileName> names_;  // still to be tried, the next one last
  std::vector<FileName> tried_;
  std::size_t skipped_ = 0;
  std::string first_reason_;
};

}  // namespace libhvd::checkpoint
