// Samples from one file of records, without labels. See Source for threads.
#pragma once

#include "base/error.hpp"
#include "io/input_file.hpp"
#include "io/record_file.hpp"
#include "io/source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

// What both kinds of files have in common.
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

// A TFRecord file. Takes 8 bytes of memory per record.
class TfrecordSource final : public RecordSource {
 public:
  // Error: the file cannot be read, or a record is damaged.
  static Result<std::unique_ptr<TfrecordSource>> open(const std::string& path);

  std::int64_t samples() const override { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  Result<void> read(std::int64_t sample, ByteBuffer& out) const override;

 private:
  TfrecordSource(std::string path, InputFile file, std::vector<std::uint64_t> offsets)
      : RecordSource(std::move(path), std::move(file)), offsets_(std::move(offsets)) {}

  std::vector<std::uint64_t> offsets_;  // of the records, and the file's end
};

// A file of records of equal size after a header, which is skipped.
class FixedSource final : public RecordSource {
 public:
  // Error: the file cannot be read, or does not consist of a header and whole records.
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
