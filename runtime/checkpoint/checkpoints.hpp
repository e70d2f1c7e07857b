// A folder of checkpoints as all ranks use it together; what stands behind the handle of
// hvd/checkpoint.h, which says what the calls do.
//
// One object a rank; the calls with a communicator are collectives. Used by one thread at a time.
// While a save is being written, its thread has the snapshot and the archive: everything that needs
// them waits for it first.
#pragma once

#include "base/result.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"
#include "checkpoint/save.hpp"
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
  std::string job = {};    // for the lock: who this is
  std::string fault = {};  // what the caller has found wrong with them; "": nothing
};

class Checkpoints {
 public:
  static Result<std::unique_ptr<Checkpoints>> open(Communicator& communicator,
                                                   const std::string& folder,
                                                   const Options& options);

  // Calls close(), and drops what it says.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  Result<void> save(Communicator& communicator, std::span<const Item> items, std::uint64_t step,
                    std::optional<double> metric);
  Result<void> wait(Communicator& communicator);

  // Nothing: the folder has no checkpoint.
  Result<std::optional<Found>> load(Communicator& communicator, std::span<const Item> items,
                                    hvd_which which);
  Result<std::optional<Found>> find(Communicator& communicator, hvd_which which);

  // Not a collective: ends this rank's own writing, and unlocks. May be called again.
  Result<void> close();

 private:
  Checkpoints(std::string folder, Options options, int rank, int size);

  Result<void> prepare_folder();
  Result<void> prepare_as_guest();
  std::string marker_path() const;
  bool writes() const { return options_.sharded || rank_ == 0; }

  Result<void> take_snapshot(std::span<const Item> items, std::uint64_t step,
                             std::optional<double> metric);
  Result<void> start_writing();
  Result<void> start_completing();
  Result<void> write_own_file();
  Result<void> write_manifest();
  Result<void> tidy();
  Result<void> finish(Communicator& communicator);
  Result<void> finish_sharded(Communicator& communicator, const Result<void>& written);
  void abandon();
  std::string local_path() const;

  Result<void> settle(Communicator& communicator);
  Result<void> begin_search(hvd_which which, std::optional<Search>& search) const;
  Result<std::optional<Found>> share_next(Communicator& communicator, std::optional<Search>& search,
                                          std::optional<Search::Candidate>& candidate) const;

  const std::string folder_;
  const Options options_;
  const int rank_;
  const int size_;
  std::uint64_t writer_ = 0;  // see Index
  FolderLock lock_;           // rank 0's
  std::optional<FolderIdentity> identity_;
  Archive archive_;  // rank 0's
  Snapshot snapshot_;
  Index index_;            // of the save that was last begun; this rank's file
  PartWatch watch_;        // rank 0, sharded
  Background writing_;     // this rank's file
  Background completing_;  // rank 0, sharded: waits for all parts, writes the manifest
  // Deletes what is superfluous, which can take as long as writing. Started by whichever of the two
  // above has completed the checkpoint.
  Background tidying_;
  std::optional<Error> untold_;  // of a save, found out by a call that does not tell it
};

}  // namespace libhvd::checkpoint
