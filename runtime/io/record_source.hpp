// TFRecord, TensorFlow's file of records (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords
// format details"). A record is
//   uint64 length, uint32 masked CRC-32C of the length, the data, uint32 masked CRC-32C of the data
// with all numbers little-endian. Masked: rotated right by 15 bits, plus 0xa282ead8.
#pragma once

#include "base/result.hpp"
#include "io/atomic_file.hpp"
#include "io/source.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
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

// One file of records, without labels.

// What the two kinds of files have in common.
class RecordSource : public Source {
 public:
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t) const override { return -1; }
  std::string name(std::int64_t sample) const override {
    return path_ + " record " + std::to_string(sample);
  }
  std::uint32_t fingerprint() const override;

 protected:
  RecordSource(std::string path, InputFile file) : path_(std::move(path)), file_(std::move(file)) {}
  const InputFile& file() const { return file_; }

 private:
  std::string path_;
  InputFile file_;
  std::vector<std::string> classes_;
};

// See tfrecord.hpp. Its memory is 8 bytes a record.
class TfrecordSource final : public RecordSource {
 public:
  static Result<std::unique_ptr<TfrecordSource>> open(const std::string& path);

  std::int64_t samples() const override { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  Outcome read(std::int64_t sample, ByteBuffer& out) const override;

 private:
  TfrecordSource(std::string path, InputFile file, std::vector<std::uint64_t> offsets)
      : RecordSource(std::move(path), std::move(file)), offsets_(std::move(offsets)) {}

  std::vector<std::uint64_t> offsets_;  // of the records; the last is the file's end
};

class FixedSource final : public RecordSource {
 public:
  static Result<std::unique_ptr<FixedSource>> open(const std::string& path,
                                                   std::uint64_t record_bytes,
                                                   std::uint64_t header_bytes);

  std::int64_t samples() const override { return samples_; }
  Outcome read(std::int64_t sample, ByteBuffer& out) const override;

 private:
  FixedSource(std::string path, InputFile file, std::uint64_t record_bytes,
              std::uint64_t header_bytes);

  std::uint64_t record_bytes_;
  std::uint64_t header_bytes_;
  std::int64_t samples_;
};

}  // namespace libhvd
