// Reads any bytes as a checkpoint file, and as an index with correct checksums, which the fuzzer
// could not find by itself.
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/format.hpp"
#include "common/crc32c.hpp"
#include "expect.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

using namespace libhvd;
using namespace libhvd::checkpoint;

namespace {

// Reads every block that the file's index names.
void read_as_file(const std::string& bytes) {
  const Fd file(::memfd_create("checkpoint", MFD_CLOEXEC));
  FUZZ_EXPECT(::write(file.get(), bytes.data(), bytes.size()) ==
              static_cast<ssize_t>(bytes.size()));
  const auto opened = DataFile::open("/proc/self/fd/" + std::to_string(file.get()));
  if (!opened.ok() || opened->index().kind == FileKind::manifest) return;
  const Index& index = opened->index();
  std::vector<std::byte> room;
  for (std::uint64_t i = 0; i < index.range.count; ++i) {
    const std::uint64_t block = index.range.first + i;
    room.resize(index.blocks.length(block));
    static_cast<void>(opened->read_block(block, room.data()));
  }
}

// Checks that an accepted index encodes to the same bytes and that its parts do not overlap.
void read_as_index(const std::string& bytes) {
  const auto index = decode_index(bytes);
  if (!index.ok()) return;
  FUZZ_EXPECT(encode_index(*index) == bytes);
  std::uint64_t end = 0;
  for (const Part& part : index->parts) {
    FUZZ_EXPECT(part.offset >= end);
    end = part.offset + part.description.bytes;
  }
  FUZZ_EXPECT(end <= index->blocks.data_bytes);
}

// Returns a file of zeros that has the bytes as its index.
std::string around_index(const std::string& bytes) {
  const auto header = encode_header();
  std::string file(reinterpret_cast<const char*>(header.data()), header.size());
  if (const auto index = decode_index(bytes); index.ok() && index->kind != FileKind::manifest) {
    const std::uint64_t data = index->blocks.bytes(index->range);
    if (data < (1 << 20)) file.append(data, '\0');
  }
  const auto footer = encode_footer(
      {FileKind::whole, file.size(), bytes.size(), crc32c(0, bytes.data(), bytes.size())});
  return file + bytes + std::string(reinterpret_cast<const char*>(footer.data()), footer.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_as_index(bytes);
  static_cast<void>(decode_descriptions(bytes));
  static_cast<void>(FileName::parse(bytes));
  read_as_file(bytes);
  read_as_file(around_index(bytes));
  return 0;
}
