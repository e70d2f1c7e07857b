// A folder of checkpoints: which files are in it, and which of them may go. Only names are looked
// at; what is in the files is checkpoint_file.hpp's.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hvd/checkpoint.h>

namespace libhvd::checkpoint {

// "checkpoint-STEP.SAVE.hvd", and for the parts of one "checkpoint-STEP.SAVE.WRITER.part-NUMBER",
// in digits enough to sort by step. SAVE counts the saves in the folder and says which is newer.
// The names of two saves always differ, so none ever replaces another.
struct FileName {
  std::uint64_t step = 0;
  std::uint64_t save = 0;
  bool is_part = false;
  std::uint64_t writer = 0;  // parts only
  std::uint64_t part = 0;    // parts only; counted from 0

  std::string text() const;
  static std::optional<FileName> parse(std::string_view text);
  bool operator==(const FileName&) const = default;
};

// All such names in a folder, the newest save first; other files are not looked at. Error: it is no
// folder, cannot be read, ….
Result<std::vector<FileName>> list_folder(const std::string& folder);

// Creates the folder and those above it where they are not there, and brings their names to the
// disk. Error: a file has the name, ….
Result<void> make_folders(const std::string& folder);

// What a folder's path leads to; to see that it is still the same.
struct FolderIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  static Result<FolderIdentity> of(const std::string& folder);
  bool operator==(const FolderIdentity&) const = default;
};

// A checkpoint that can be read, for the choice of what to keep.
struct Kept {
  std::uint64_t step = 0;
  std::uint64_t save = 0;
  std::optional<double> metric;

  bool operator==(const Kept&) const = default;
};

// Those with a finite metric, the best first, of equals the one saved first.
std::vector<Kept> by_metric(std::span<const Kept> checkpoints, hvd_best best);

// What may be deleted: all but the last `keep_last` saves (negative: all) and the best.
std::vector<Kept> superfluous(std::span<const Kept> checkpoints, std::int64_t keep_last,
                              hvd_best best);

// Keeps two jobs from writing into one folder: a lock (fcntl_locking(2), F_OFD_SETLK) on a file in
// it, which holds the owner's job id, host and pid. The kernel (on NFS: the server) drops it when
// the process ends, however it ends. It belongs to the open file and not to the process, as a lock
// of the process would be lost when anything in the process, a backup of the folder say, opens and
// closes the same file. For that the file is closed in a forked child, which has no lock.
//
// One owner; any thread. A second lock of the same process is refused as another's is, and also
// where the file system has no locks.

inline constexpr const char* kLockName = ".hvd-checkpoint-lock";

class FolderLock {
 public:
  // `owner`: a line about who this is, for the one who is refused. Error: another has it, or the
  // file cannot be made. Where the file system has no locks: a lock that does not hold() anything.
  static Result<FolderLock> take(const std::string& folder, const std::string& owner);

  bool holds() const { return locked_ != nullptr && locked_->holds; }

  // What the process has locked; a forked child empties it.
  struct Locked {
    FolderIdentity folder;
    Fd file = {};
    bool holds = false;
  };

 private:
  std::shared_ptr<Locked> locked_;
};

// The line of the lock's owner, "" when there is none.
std::string lock_owner(const std::string& folder);

}  // namespace libhvd::checkpoint
