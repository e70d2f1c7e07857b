// Reads any bytes as a file of records, in TFRecord framing and of fixed length. Also writes the
// bytes as records and reads them back.
#include "common/fd.hpp"
#include "expect.hpp"
#include "io/record_source.hpp"

#include <cstdint>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

using namespace libhvd;

namespace {

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes)
      : fd_(::memfd_create("records", MFD_CLOEXEC)) {
    FUZZ_EXPECT(::write(fd_.get(), bytes.data(), bytes.size()) ==
                static_cast<ssize_t>(bytes.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  Fd fd_;
};

void read_all(const Source& source, std::size_t file_size) {
  for (std::int64_t i = 0; i < source.samples(); ++i) {
    ByteBuffer out;
    const bool read = source.read(i, out).ok();
    FUZZ_EXPECT(!read || out.size() <= file_size);
  }
}

void append(std::vector<std::byte>& file, std::span<const std::byte> bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

// Writes the bytes as records of `length` bytes and checks that reading returns them.
void round_trip(std::span<const std::byte> data, std::size_t length) {
  std::vector<std::byte> file;
  std::int64_t records = 0;
  for (std::size_t at = 0; at < data.size(); at += length, ++records) {
    const auto record = data.subspan(at, std::min(length, data.size() - at));
    append(file, record_header(record.size()));
    append(file, record);
    append(file, record_footer(record));
  }
  const MemoryFile memory(file);
  const auto source = TfrecordSource::open(memory.path());
  FUZZ_EXPECT(source.ok() && (*source)->samples() == records);
  ByteBuffer out;
  for (std::int64_t i = 0; i < records; ++i) FUZZ_EXPECT((*source)->read(i, out).ok());
  FUZZ_EXPECT(out.size() == data.size() &&
              (data.empty() || std::memcmp(out.data(), data.data(), data.size()) == 0));
}

}  // namespace

// The first byte sets the length of records.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t length = data[0];
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const MemoryFile memory(bytes);
  const auto framed = TfrecordSource::open(memory.path());
  if (framed.ok()) read_all(**framed, bytes.size());
  const auto fixed = FixedSource::open(memory.path(), length, length / 2);
  if (fixed.ok()) read_all(**fixed, bytes.size());
  round_trip(bytes, length + 1);
  return 0;
}
