// A folder of checkpoints as all ranks use it together: the object of a handle of hvd/checkpoint.h,
// which describes the calls.
//
// One object per rank, used by one thread at a time. Calls with a communicator are collectives, and
// their errors are the same on all ranks. While a save is being written, its thread uses the
// snapshot and the archive, so everything that needs them first waits for the writing.
#pragma once

#include "base/error.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/background.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/folder_lock.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"
#include "checkpoint/part_watch.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/search.hpp"
#include "checkpoint/snapshot.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace libhvd::checkpoint {

struct Options {
  Retention retention = {};
  bool sharded = false;
  bool read_only = false;
  std::string job = {};    // for the lock's line: the id of this job; may be empty
  std::string fault = {};  // what the caller has found wrong with the options; "" if nothing
};

class Checkpoints {
 public:
  // Error: a faulty or different option on some rank; the folder cannot be used.
  static Result<std::unique_ptr<Checkpoints>> open(Communicator& communicator,
                                                   const std::string& folder,
                                                   const Options& options);

  // Calls close() and ignores its outcome.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Copies the state and starts to write it. Error: the state cannot be saved; or an earlier save
  // has failed, and this one is being written all the same (the message says so).
  Result<void> save(Communicator& communicator, std::span<const Item> items, std::uint64_t step,
                    std::optional<double> metric);
  // Waits until the last save is durable. Returns the error of an earlier save once.
  Result<void> wait(Communicator& communicator);

  // Both return nullopt if the folder has no checkpoint. load() also fills the items.
  Result<std::optional<Found>> load(Communicator& communicator, std::span<const Item> items,
                                    hvd_which which);
  Result<std::optional<Found>> find(Communicator& communicator, hvd_which which);

  // Makes the object one of the communicator's ranks, which are those of a later session. Ranks may
  // have other numbers than before, be gone or be new; each has opened the folder with the same
  // options. A save that the ranks of its session did not complete is given up. Error: as for
  // open(). Then all ranks must call it again before any other call but close().
  Result<void> rebind(Communicator& communicator);

  // Ends this rank's own writing, and unlocks. Not a collective. May be called again.
  Result<void> close();

 private:
  Checkpoints(std::string folder, Options options);

  Result<void> bind(Communicator& communicator);
  Result<void> end_earlier_session(Communicator& communicator);
  Result<bool> all_are_here(Communicator& communicator) const;
  Result<void> prepare_folder();
  Result<void> check_folder_is_shared();
  std::string marker_path() const;
  bool writes() const { return options_.sharded || rank_ == 0; }

  Result<void> take_snapshot(std::span<const Item> items, std::uint64_t step,
                             std::optional<double> metric);
  Result<void> start_writing();
  Result<void> start_completing();
  Result<void> write_own_file();
  Result<void> write_manifest();
  Result<void> start_deleting();
  Result<void> finish(Communicator& communicator);
  Result<void> finish_sharded(Communicator& communicator, const Result<void>& written);
  void abandon();
  std::string own_path() const;

  Result<void> wait_for_writing(Communicator& communicator);
  Result<void> begin_search(hvd_which which, std::optional<Search>& search) const;
  Result<std::optional<Found>> share_next(Communicator& communicator, std::optional<Search>& search,
                                          std::optional<Search::Candidate>& candidate) const;

  const std::string folder_;
  const Options options_;
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t writer_ = 0;  // see Index
  FolderLock lock_;           // rank 0's
  std::optional<FolderIdentity> identity_;
  Archive archive_;  // rank 0's
  Snapshot snapshot_;
  Index index_;            // of this rank's file in the save that was last begun
  PartWatch watch_;        // rank 0, sharded
  Background writing_;     // writes this rank's file
  Background completing_;  // rank 0, sharded: waits for all parts, writes the manifest
  // Deletes superfluous checkpoints, which can take as long as writing. The one of the two above
  // that has completed the checkpoint starts it.
  Background deleting_;
  std::optional<Error> unreported_;  // of a save; the next save() or wait() returns it
};

}  // namespace libhvd::checkpoint
