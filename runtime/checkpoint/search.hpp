// The checkpoints of a folder in the order in which a load tries them. Runs on rank 0, on the
// thread that loads; blocks on the disk.
#pragma once

#include "base/error.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/folder.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hvd/checkpoint.h>

namespace libhvd::checkpoint {

class Search {
 public:
  // `by`: HVD_BEST_NONE for the newest first. Error: the folder cannot be read; or the best one is
  // wanted and there are checkpoints, but none with a finite metric.
  static Result<Search> begin(const std::string& folder, hvd_best by);

  struct Candidate {
    FileName name;
    std::string path;
    CheckpointFile file;
  };

  // Returns the next checkpoint that is whole according to its index; skips others with a line on
  // stderr. Does not report what another job deletes meanwhile, because that job has written newer
  // ones. Returns nullopt if the folder has no checkpoint. Error: it has some, but no further one
  // can be read.
  Result<std::optional<Candidate>> next();

  // Reports that the data of the last candidate is damaged.
  void skip(const Candidate& candidate, const std::string& why);

 private:
  Search(std::string folder, hvd_best by) : folder_(std::move(folder)), by_(by) {}
  Result<void> list_untried();
  void report_skipped(const std::string& path, const std::string& why);

  std::string folder_;
  hvd_best by_;
  std::vector<FileName> names_;  // still to be tried, the next one last
  std::vector<FileName> tried_;
  std::size_t skipped_ = 0;
  std::string first_reason_;
};

}  // namespace libhvd::checkpoint
