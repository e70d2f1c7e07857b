// --output-filename DIR: the raw bytes of each rank in DIR/rank.0007/stdout and stderr.
//
// Written at once, without a buffer of ours: what a rank printed is there when hvdrun dies, and
// `tail -f` sees it. Files of a former run are emptied; folders of its higher ranks stay. So many
// files stay open as a part of the descriptor limit allows; past that the one used least recently
// is closed, and opened again, at its end, when its rank prints more. Belongs to the loop's thread.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "output/stream.hpp"

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
  // Makes the folders and empty files. Error (kExitUsage), with the path: cannot be made.
  static Result<RankFiles> create(const std::filesystem::path& directory, int ranks,
                                  std::size_t most_open = default_most_open());

  // "rank.0007": four digits, or as many as the job's highest rank needs.
  static std::string folder_name(int rank, int ranks);

  // Half of the process's descriptor limit.
  static std::size_t default_most_open();

  void write(int rank, Stream stream, std::string_view bytes);

  // The first failure; nothing more is written to that file, the others go on. Failures of further
  // files only show in losses().
  const std::optional<Error>& error() const { return error_; }

  // One line for each file that lacks something.
  std::vector<std::string> losses() const;

 private:
  struct File {
    Fd fd;
    std::list<std::size_t>::iterator place{};  // in open_, while fd is open
    int failure = 0;                           // errno
    std::uint64_t lost = 0;
  };

  RankFiles(std::filesystem::path directory, int ranks, std::size_t most_open);

  std::filesystem::path folder_of(int rank) const;
  std::filesystem::path path_of(std::size_t index) const;
  Result<void> create_all(int ranks);
  bool make_open(std::size_t index);  // false: errno says why
  void give_up(std::size_t index, int errno_value);

  std::filesystem::path directory_;
  int ranks_;
  std::size_t most_open_;
  std::vector<File> files_;      // by rank, stdout and stderr
  std::list<std::size_t> open_;  // used most recently first
  std::optional<Error> error_;
};

}  // namespace hvdrun
