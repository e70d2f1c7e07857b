// TFRecord, TensorFlow's file of records (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords
// format details"). A record is
//   uint64 length, uint32 masked CRC-32C of the length, the data, uint32 masked CRC-32C of the data
// with all numbers little-endian. Masked: rotated right by 15 bits, plus 0xa282ead8.
#pragma once

#include "base/result.hpp"
#include "data/input_file.hpp"
#include "io/atomic_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

inline constexpr std::size_t kRecordHeader = 12;
inline constexpr std::size_t kRecordFooter = 4;

std::uint32_t masked_crc(std::span<const std::byte> bytes);

std::array<std::byte, kRecordHeader> record_header(std::uint64_t length);
std::array<std::byte, kRecordFooter> record_footer(std::span<const std::byte> data);

// The length that a header says. Error: its checksum is wrong.
Result<std::uint64_t> parse_record_header(std::span<const std::byte, kRecordHeader> header);
// Whether the footer belongs to the data.
bool footer_matches(std::span<const std::byte, kRecordFooter> footer,
                    std::span<const std::byte> data);

// Where each record begins, and last where the file ends. Reads the headers only (and what lies
// within the same few kilobytes). Error: names the record.
Result<std::vector<std::uint64_t>> index_records(const InputFile& file);

// One thread. What was written becomes visible with close().
class RecordWriter {
 public:
  static Result<RecordWriter> open(const std::string& path);

  Outcome write(std::span<const std::byte> data);
  Outcome close();  // the last call

 private:
  explicit RecordWriter(AtomicFile file) : file_(std::move(file)) {}
  Outcome put(std::span<const std::byte> bytes);
  Outcome flush();

  AtomicFile file_;
  std::vector<std::byte> buffer_;
};

}  // namespace libhvd
