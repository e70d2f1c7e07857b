// Checkpoint files on the disk: writing one, and reading one with all checks.
#pragma once

#include "base/result.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

// The AtomicFile kind of what is being written.
inline constexpr const char* kTemporaryKind = "checkpoint";

// Writes a file of any kind, whole and durable or not at all. `data` is what index.range stands for
// (a manifest has none), best aligned to 4096 bytes; index.checksums is filled in, but for a
// manifest, which brings them. Any thread.
Result<void> write_file(const std::string& path, Index index, const std::byte* data);

// One file, open for reading. Reading changes nothing in the object: any number of threads.
class DataFile {
 public:
  // Error: it cannot be opened, or header, footer or index is not whole.
  static Result<DataFile> open(const std::string& path);

  const Index& index() const { return index_; }

  // Reads a block of index().range and checks it. `to` has room for the block.
  Result<void> read_block(std::uint64_t block, std::byte* to) const;

 private:
  DataFile(Fd fd, Index index) : fd_(std::move(fd)), index_(std::move(index)) {}

  Fd fd_;
  Index index_;
};

// Where a checkpoint is, and what is in it.
struct Found {
  std::string path;
  Index index;
};

// A checkpoint: one file, or a manifest with its parts.
class CheckpointFile {
 public:
  // Error: as above, for any of its files; parts that belong to another checkpoint; a file whose
  // name says something else than its index.
  static Result<CheckpointFile> open(const std::string& folder, const FileName& name);

  const Index& index() const { return main_.index(); }
  Result<void> read_block(std::uint64_t block, std::byte* to) const;

 private:
  explicit CheckpointFile(DataFile main) : main_(std::move(main)) {}

  DataFile main_;
  std::vector<DataFile> parts_;  // those that have blocks, in order
};

// A part file of a checkpoint that is being written: its checksums, when it stands there whole and
// is what `expected` (without checksums) says.
Result<std::vector<std::uint32_t>> read_part_checksums(const std::string& path,
                                                       const Index& expected);

}  // namespace libhvd::checkpoint
