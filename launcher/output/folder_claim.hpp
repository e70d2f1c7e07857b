// The file .hvdrun in the folder of --output-filename. It says which run writes there, and that run
// keeps it locked until its process ends. So two runs never write to one folder at once, and a part
// of a SLURM job recognizes the files of the part before it. Loop thread only.
//
// A run continues without a lock if the file system has none, or if the file is another user's.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "model/job_spec.hpp"

#include <filesystem>

namespace hvdrun {

class FolderClaim {
 public:
  // Errors (kExitUsage): another run writes there; another task of this job array has written
  // there; the file cannot be opened. An earlier part of the same job is no other run: its host may
  // be lost, and NFS keeps its lock for a while.
  static Result<FolderClaim> make(const std::filesystem::path& folder, const JobPart& part);

  // Returns whether the folder has the files of an earlier part of this run's job. If no run has
  // left its name there, a later part takes them for such.
  bool continues() const { return continues_; }

 private:
  FolderClaim() = default;

  common::Fd file_;
  bool continues_ = false;
};

}  // namespace hvdrun
