// A folder of checkpoints: the names of its files, and the folder itself. Looks only at names;
// checkpoint_file.hpp reads what is in the files. Blocks on the disk; any thread.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd::checkpoint {

// The name of a file: "checkpoint-STEP.SAVE.hvd", and of a part
// "checkpoint-STEP.SAVE.WRITER.part-NUMBER", with leading zeros so that names sort by step. SAVE
// numbers the saves in the folder; of two checkpoints the one with the larger SAVE is newer. The
// names of two saves always differ, so no save replaces another.
struct FileName {
  std::uint64_t step = 0;
  std::uint64_t save = 0;
  bool is_part = false;
  std::uint64_t writer = 0;  // parts only
  std::uint64_t part = 0;    // parts only; from 0

  std::string text() const;
  // Returns nullopt if the text is no such name, or spelled in another way than text() does.
  static std::optional<FileName> parse(std::string_view text);
  bool operator==(const FileName&) const = default;
};

// Returns all such names in a folder, the newest save first; ignores other files. Error: it is no
// folder, cannot be read, ….
Result<std::vector<FileName>> list_folder(const std::string& folder);

// Creates the folder and its parents where they are missing, and makes their names durable. Error:
// a file has the name, ….
Result<void> make_folders(const std::string& folder);

// What a folder's path leads to, so that a later check can see whether it is still the same.
struct FolderIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  // Error: the path leads to no folder.
  static Result<FolderIdentity> of(const std::string& folder);
  bool operator==(const FolderIdentity&) const = default;
};

}  // namespace libhvd::checkpoint
