// Rank 0's list of the checkpoints in a folder: which may be deleted, and the number of the next
// save. One thread at a time: rank 0's, and while a save is being written the writing thread.
#pragma once

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/retention.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace libhvd::checkpoint {

class Archive {
 public:
  Archive(std::string folder, Retention retention)
      : folder_(std::move(folder)), retention_(retention) {}

  // Lists the checkpoints in the folder. Files whose index cannot be read are left out; they are
  // never deleted and use up none of the checkpoints to keep. Error: the folder cannot be read.
  Result<void> read();

  // Deletes part files that belong to no checkpoint.
  void remove_stray_parts();

  // Returns a number that no save in the folder has.
  std::uint64_t next_save() { return ++last_save_; }

  // Adds a new, durable checkpoint. Returns those that may be deleted now, and forgets them.
  std::vector<SavedCheckpoint> add(const SavedCheckpoint& added);

  // Removes a checkpoint with damaged data from the list, so that it uses up none of those to keep.
  void forget(const FileName& name);

 private:
  std::string folder_;
  Retention retention_;
  std::vector<SavedCheckpoint> checkpoints_;
  std::uint64_t last_save_ = 0;
};

// Returns the checkpoints among these files whose index can be read, in the same order.
std::vector<SavedCheckpoint> read_indexes(const std::string& folder,
                                          const std::vector<FileName>& names);

// Deletes the files of these checkpoints. Names on stderr what cannot be deleted, and leaves it.
// Any thread.
void delete_checkpoints(const std::string& folder, const std::vector<SavedCheckpoint>& superfluous);

}  // namespace libhvd::checkpoint
