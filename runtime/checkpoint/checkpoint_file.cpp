#include "checkpoint/checkpoint_file.hpp"

#include "common/crc32c.hpp"
#include "io/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>

namespace libhvd::checkpoint {
namespace {

Error unreadable(std::string why) {
  return fail(HVD_ERROR_SYSTEM, std::move(why));
}

// Reads exactly `bytes` bytes from `offset` on. Error: the file ends earlier or cannot be read.
Result<void> read_fully(int fd, std::uint64_t offset, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("it cannot be read", errno);
    if (count == 0) return unreadable("it is cut short");
    to += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
  return {};
}

// Reads and checks header, footer and index.
Result<Index> read_index(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("it cannot be read", errno);
  if (!S_ISREG(status.st_mode)) return unreadable("it is not a file");
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes == 0) return unreadable("it is empty");

  std::array<std::byte, kHeaderBytes> header;
  const std::size_t at_hand = std::min<std::uint64_t>(kHeaderBytes, file_bytes);
  HVD_CHECK(read_fully(fd, 0, header.data(), at_hand));
  HVD_CHECK(check_header(std::span(header).first(at_hand)));
  if (file_bytes < kHeaderBytes + kFooterBytes) return unreadable("it is cut short");

  std::array<std::byte, kFooterBytes> end;
  HVD_CHECK(read_fully(fd, file_bytes - kFooterBytes, end.data(), end.size()));
  HVD_TRY(const Footer footer, decode_footer(end, file_bytes));

  std::string text(footer.index_bytes, '\0');
  HVD_CHECK(
      read_fully(fd, footer.index_offset, reinterpret_cast<std::byte*>(text.data()), text.size()));
  if (crc32c(0, text.data(), text.size()) != footer.index_checksum)
    return unreadable("its index is damaged");
  HVD_TRY(Index index, decode_index(text));
  const std::uint64_t data = index.kind == FileKind::manifest ? 0 : index.blocks.bytes(index.range);
  if (index.kind != footer.kind || footer.index_offset != kHeaderBytes + data)
    return unreadable("its index and its end contradict each other");
  return index;
}

// Returns whether the two are files of one checkpoint.
bool belong_together(const Index& manifest, const Index& part) {
  return part.kind == FileKind::part && part.step == manifest.step && part.save == manifest.save &&
         part.writer == manifest.writer && part.blocks == manifest.blocks;
}

}  // namespace

Result<void> write_file(const std::string& path, Index index, const std::byte* data) {
  HVD_TRY(AtomicFile file, AtomicFile::create(path, {.kind = kTemporaryKind, .direct = true}));
  alignas(AtomicFile::kDirectAlignment) const auto header = encode_header();
  HVD_CHECK(file.write(header.data(), header.size()));
  if (index.kind != FileKind::manifest) {
    index.checksums.clear();
    for (std::uint64_t i = 0; i < index.range.count; ++i) {
      const std::uint64_t block = index.range.first + i;
      const std::byte* const begin =
          data + (index.blocks.begin(block) - index.blocks.begin(index.range.first));
      const std::uint64_t length = index.blocks.length(block);
      index.checksums.push_back(crc32c(0, begin, length));
      HVD_CHECK(file.write(begin, length));
    }
  }
  const std::uint64_t index_offset = file.size();
  const std::string text = encode_index(index);
  HVD_CHECK(file.write(text.data(), text.size()));
  const auto footer = encode_footer({.kind = index.kind,
                                     .index_offset = index_offset,
                                     .index_bytes = text.size(),
                                     .index_checksum = crc32c(0, text.data(), text.size())});
  HVD_CHECK(file.write(footer.data(), footer.size()));
  return file.commit();
}

Result<DataFile> DataFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO of that name must not block. It has no effect on regular files.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno("it cannot be opened", errno);
  HVD_TRY(Index index, read_index(fd.get()));
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return DataFile(std::move(fd), std::move(index));
}

Result<void> DataFile::read_block(std::uint64_t block, std::byte* to) const {
  const std::uint64_t before = index_.blocks.begin(block) - index_.blocks.begin(index_.range.first);
  const std::uint64_t length = index_.blocks.length(block);
  HVD_CHECK(read_fully(fd_.get(), kHeaderBytes + before, to, length));
  if (crc32c(0, to, length) != index_.checksums[block - index_.range.first])
    return unreadable("its data is damaged (block " + std::to_string(block) + ")");
  return {};
}

Result<CheckpointFile> CheckpointFile::open(const std::string& folder, const FileName& name) {
  HVD_TRY(DataFile main, DataFile::open(folder + "/" + name.text()));
  CheckpointFile file(std::move(main));
  const Index& index = file.index();
  if (index.kind == FileKind::part) return unreadable("it is a part of a checkpoint");
  if (index.step != name.step || index.save != name.save)
    return unreadable("its name is not the one that it was written under");
  for (std::size_t number = 0; number < index.part_files.size(); ++number) {
    const BlockRange& range = index.part_files[number];
    if (range.count == 0) continue;
    const std::string part_name =
        FileName{index.step, index.save, true, index.writer, number}.text();
    auto part = DataFile::open(folder + "/" + part_name);
    if (!part.ok()) return with_context("its part " + part_name, part.error());
    const auto own = index.checksums.begin() + static_cast<std::ptrdiff_t>(range.first);
    if (!belong_together(index, part->index()) || part->index().range != range ||
        !std::ranges::equal(part->index().checksums,
                            std::span(own, static_cast<std::size_t>(range.count)))) {
      return unreadable("its part " + part_name + " belongs to another checkpoint");
    }
    file.parts_.push_back(std::move(*part));
  }
  return file;
}

Result<void> CheckpointFile::read_block(std::uint64_t block, std::byte* to) const {
  if (index().kind == FileKind::whole) return main_.read_block(block, to);
  const auto after = std::ranges::find_if(parts_, [block](const DataFile& part) {
    return block < part.index().range.first + part.index().range.count;
  });
  return after->read_block(block, to);
}

Result<std::vector<std::uint32_t>> read_part_checksums(const std::string& path,
                                                       const Index& expected) {
  HVD_TRY(const DataFile part, DataFile::open(path));
  if (!belong_together(expected, part.index()) || part.index().range != expected.range)
    return unreadable(path + " belongs to another checkpoint");
  return part.index().checksums;
}

}  // namespace libhvd::checkpoint
