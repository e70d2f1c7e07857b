// --output-filename DIR: the raw bytes of each rank in DIR/rank.0007/stdout and stderr.
//
// Bytes are written immediately, without a buffer of ours, so that `tail -f` shows them and they
// survive hvdrun's death. A run empties the files of an earlier one, and removes those of ranks
// that it does not have itself. A later part of the same SLURM job appends to them. A run that
// begins while another one writes there is an error (FolderClaim). Half of the descriptor limit may
// be open files. Beyond that the least recently used one is closed, and opened again when its rank
// prints more. Loop thread only. A file that cannot be written is given up; the others are still
// written.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "model/job_spec.hpp"
#include "output/folder_claim.hpp"
#include "output/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class RankFiles {
 public:
  // Creates the folders and empty files. Error (kExitUsage), with the path: one cannot be created,
  // or another run writes there.
  static Result<RankFiles> create(const std::filesystem::path& directory, int ranks,
                                  const JobPart& part = {},
                                  std::size_t most_open = default_most_open());

  // Makes room for the files of ranks that are started later; there are `ranks` now. They are
  // created by the first bytes.
  void add(std::size_t ranks) { files_.resize(std::max(files_.size(), ranks * 2)); }

  // Returns "rank.0007": four digits, or as many as the job's highest rank needs.
  static std::string folder_name(int rank, int ranks);

  // Returns half of the process's descriptor limit.
  static std::size_t default_most_open();

  void write(int rank, Stream stream, std::string_view bytes);

  // Returns the first failure. Failures of further files appear in losses() only.
  const std::optional<Error>& error() const { return error_; }

  // Returns a line for each incomplete file.
  std::vector<std::string> losses() const;

 private:
  struct File {
    Fd fd;
    std::list<std::size_t>::iterator place{};  // in open_, if fd is open
    int failure = 0;                           // errno
    std::uint64_t lost = 0;
  };

  RankFiles(std::filesystem::path directory, int ranks, std::size_t most_open);

  std::filesystem::path folder_of(int rank) const;
  std::filesystem::path path_of(std::size_t index) const;
  Result<void> create_all(int ranks, const JobPart& part);
  Result<void> remove_other_ranks() const;
  // Opens the file if it is not open. Returns false, with errno, if it cannot be opened.
  bool make_open(std::size_t index);
  void give_up(std::size_t index, int errno_value);

  std::filesystem::path directory_;
  int ranks_;
  std::size_t most_open_;
  std::vector<File> files_;      // by rank, stdout and stderr
  std::list<std::size_t> open_;  // the most recently used first
  std::optional<Error> error_;
  std::optional<FolderClaim> claim_;
};

}  // namespace hvdrun
