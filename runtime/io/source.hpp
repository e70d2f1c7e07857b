// Sources of samples: folders, files of records, and what the reader delivers of them.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "io/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace libhvd {

// Bytes that grow and are not cleared first: they are about to be read from a file.

// Aligned as malloc(3) does it. Throws std::bad_alloc. Keeps its memory when it shrinks.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ~ByteBuffer() { std::free(data_); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  void resize(std::size_t size) {
    if (size > capacity_) {
      const std::size_t capacity = std::max(size, capacity_ + capacity_ / 2);
      void* const moved = std::realloc(data_, capacity);
      if (moved == nullptr) throw std::bad_alloc();
      data_ = static_cast<std::byte*>(moved);
      capacity_ = capacity;
    }
    size_ = size;
  }
  // The new bytes at the end, for the caller to fill.
  std::span<std::byte> append(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) - size_) throw std::bad_alloc();
    const std::size_t at = size_;
    resize(at + count);
    return {data_ + at, count};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// What the reader delivers, and what a decode callback sees and makes of a sample.

// One rank's part of a step's batch. Its memory is used again for later batches.
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch_size = 0;  // samples of all ranks together
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> labels;
  ByteBuffer data;                      // the samples' bytes one after the other
  std::vector<std::size_t> offsets{0};  // where each begins, and the end
};

struct Sample {
  std::int64_t index = 0;
  std::int64_t label = -1;
  std::span<const std::byte> data;
  std::string name;
};

// A sample's place at the end of a batch.
class SampleOutput {
 public:
  SampleOutput(ByteBuffer& data, std::int64_t label)
      : data_(data), begin_(data.size()), label_(label) {}

  std::byte* resize(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(-1) - begin_) throw std::bad_alloc();
    data_.resize(begin_ + bytes);
    return data_.data() + begin_;
  }
  void set_label(std::int64_t label) { label_ = label; }
  std::int64_t label() const { return label_; }

 private:
  ByteBuffer& data_;
  std::size_t begin_;
  std::int64_t label_;
};

// Called by several threads at the same time; may throw.
using Decode = std::function<Result<void>(const Sample&, SampleOutput&)>;

// Samples on a disk, numbered from 0: some bytes each, with a label or without.

// Does not change once it is open. Any thread may call, at the same time as others.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;
  // Sorted; the label is the index. Empty: the source has no labels.
  virtual const std::vector<std::string>& classes() const = 0;

  // The following take 0 ... samples() - 1.
  virtual std::int64_t label(std::int64_t sample) const = 0;  // -1: none
  virtual std::string name(std::int64_t sample) const = 0;    // for messages
  // Appends the sample's bytes. Error: without the sample's name; `out` may have got some bytes.
  virtual Result<void> read(std::int64_t sample, ByteBuffer& out) const = 0;

  // Of what there is, not of the samples' bytes.
  virtual std::uint32_t fingerprint() const = 0;
};

// A regular file that is read at any place by any thread.

// Errors are without the path, "cannot be opened: Permission denied": the caller knows more.
class InputFile {
 public:
  // Error: it cannot be opened, or is something else (a pipe would never end).
  static Result<InputFile> open(const std::string& path);

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills all of `bytes`. Error: the file ends before.
  Result<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(Fd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  Fd fd_;
  std::uint64_t size_;
};

// A folder of files with one sub-folder a class, by the rules of torchvision's ImageFolder
// (torchvision.datasets.folder.make_dataset).

// ImageFolder's own list.
inline constexpr std::string_view kImageExtensions =
    ".jpg,.jpeg,.png,.ppm,.bmp,.pgm,.tif,.tiff,.webp";

class FolderSource final : public Source {
 public:
  // `extensions`: comma separated, whatever their case; "": all files.
  static Result<std::unique_ptr<FolderSource>> open(const std::string& path,
                                                    std::string_view extensions);

  std::int64_t samples() const override { return static_cast<std::int64_t>(ends_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  std::string name(std::int64_t sample) const override;
  Result<void> read(std::int64_t sample, ByteBuffer& out) const override;
  std::uint32_t fingerprint() const override;

 private:
  FolderSource() = default;
  void add(std::string_view file);

  std::string path_;
  std::vector<std::string> classes_;
  std::vector<std::size_t> class_ends_;  // samples up to and with each class
  // All files' paths below path_ in one string: a million small strings take twice the memory.
  std::string files_;
  std::vector<std::size_t> ends_;
};

// TFRecord, TensorFlow's file of records (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords
// format details"). A record is
//   uint64 length, uint32 masked CRC-32C of the length, the data, uint32 masked CRC-32C of the data
// with all numbers little-endian. Masked: rotated right by 15 bits, plus 0xa282ead8.

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

  Result<void> write(std::span<const std::byte> data);
  Result<void> close();  // the last call

 private:
  explicit RecordWriter(AtomicFile file) : file_(std::move(file)) {}
  Result<void> put(std::span<const std::byte> bytes);
  Result<void> flush();

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

// See above. Its memory is 8 bytes a record.
class TfrecordSource final : public RecordSource {
 public:
  static Result<std::unique_ptr<TfrecordSource>> open(const std::string& path);

  std::int64_t samples() const override { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  Result<void> read(std::int64_t sample, ByteBuffer& out) const override;

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
  Result<void> read(std::int64_t sample, ByteBuffer& out) const override;

 private:
  FixedSource(std::string path, InputFile file, std::uint64_t record_bytes,
              std::uint64_t header_bytes);

  std::uint64_t record_bytes_;
  std::uint64_t header_bytes_;
  std::int64_t samples_;
};

}  // namespace libhvd
