// A folder of checkpoints: which files are in it, and which of them may go. Only names are looked
// at; what is in the files is checkpoint_file.hpp's.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
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
Outcome make_folders(const std::string& folder);

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

}  // namespace libhvd::checkpoint
