// TFRecord, TensorFlow's file of records (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords
// format details"): its format, index and writer. A record is
//   uint64 length, uint32 masked CRC-32C of the length, the data, uint32 masked CRC-32C of the data
// with all numbers little-endian. Masked means: rotated right by 15 bits, plus 0xa282ead8.
//
// Functions for any thread; those with a file block on the disk.
#pragma once

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/input_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

inline constexpr std::size_t kRecordHeader = 12;
inline constexpr std::size_t kRecordFooter = 4;

// Returns the masked CRC-32C of the bytes.
std::uint32_t masked_crc(std::span<const std::byte> bytes);

std::array<std::byte, kRecordHeader> record_header(std::uint64_t length);
std::array<std::byte, kRecordFooter> record_footer(std::span<const std::byte> data);

// Returns the length in a header. Error: its checksum is wrong.
Result<std::uint64_t> parse_record_header(std::span<const std::byte, kRecordHeader> header);
// Returns whether the footer has the checksum of the data.
bool footer_matches(std::span<const std::byte, kRecordFooter> footer,
                    std::span<const std::byte> data);

// Returns where each record begins, and at last where the file ends. Reads only the headers, and
// what is within the same few kilobytes. Error: a damaged or cut record, with its number.
Result<std::vector<std::uint64_t>> index_records(const InputFile& file);

// Writes a file of records. One thread at a time. The file becomes visible with close().
class RecordWriter {
 public:
  static Result<RecordWriter> open(const std::string& path);

  Result<void> write(std::span<const std::byte> data);
  Result<void> close();  // the last call

 private:
  explicit RecordWriter(AtomicFile file) : file_(std::move(file)) {}
  Result<void> put(std::span<const std::byte> bytes);
  Result<void> flush();

  AtomicFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace libhvd
