// Rank 0's knowledge of a folder: what checkpoints are in it, what may go, what a save is numbered.
//
// Used by one thread at a time: rank 0's, and while a save is being written that thread.
#pragma once

#include "base/result.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

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
  Outcome read();

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
  Outcome look();
  void tell_skipped(const std::string& path, const std::string& why);

  std::string folder_;
  hvd_best by_;
  std::vector<FileName> names_;  // still to be tried, the next one last
  std::vector<FileName> tried_;
  std::size_t skipped_ = 0;
  std::string first_reason_;
};

}  // namespace libhvd::checkpoint
