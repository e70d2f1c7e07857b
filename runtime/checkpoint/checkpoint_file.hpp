// Checkpoint files on the disk: writes one, and reads one with all checks.
//
// A DataFile is one file; a CheckpointFile is a whole checkpoint, which is one file or a manifest
// with its part files. All functions block on the disk. What fails to read has a message that
// follows "skipped FILE: ".
#pragma once

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/format.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

// The AtomicFile kind of a checkpoint file that is being written.
inline constexpr const char* kTemporaryKind = "checkpoint";

// Writes a file of any kind: whole and durable, or not at all. `data` points to the blocks of
// index.range, best aligned to 4096 bytes; null for a manifest. Computes index.checksums, except
// for a manifest, which brings them. Any thread.
Result<void> write_file(const std::string& path, Index index, const std::byte* data);

// One file, open for reading. Reading changes nothing in the object, so any number of threads may
// read at once.
class DataFile {
 public:
  // Error: the file cannot be opened, or its header, footer or index is damaged.
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

// A checkpoint: one file, or a manifest with its parts. Any number of threads may read at once.
class CheckpointFile {
 public:
  // Error: as DataFile::open, for any of its files; a part belongs to another checkpoint; the
  // file's name contradicts its index.
  static Result<CheckpointFile> open(const std::string& folder, const FileName& name);

  const Index& index() const { return main_.index(); }
  // Like DataFile::read_block, for any block of the checkpoint.
  Result<void> read_block(std::uint64_t block, std::byte* to) const;

 private:
  explicit CheckpointFile(DataFile main) : main_(std::move(main)) {}

  DataFile main_;
  std::vector<DataFile> parts_;  // those that have blocks, in order
};

// Returns the checksums in a part file of a checkpoint that is being written. `expected`: the
// part's index, without checksums. Error: the file is not whole, or is another than expected.
Result<std::vector<std::uint32_t>> read_part_checksums(const std::string& path,
                                                       const Index& expected);

}  // namespace libhvd::checkpoint
