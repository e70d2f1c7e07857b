#include "io/record_source.hpp"

#include "common/crc32c.hpp"

#include <array>
#include <span>

namespace libhvd {

std::uint32_t RecordSource::fingerprint() const {
  const std::array<std::uint64_t, 2> facts{file_.size(), static_cast<std::uint64_t>(samples())};
  return crc32c(0, facts.data(), sizeof facts);
}

Result<std::unique_ptr<TfrecordSource>> TfrecordSource::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return with_context(path, file.error());
  auto offsets = index_records(*file);
  if (!offsets.ok()) return with_context(path, offsets.error());
  return std::unique_ptr<TfrecordSource>(
      new TfrecordSource(path, std::move(*file), std::move(*offsets)));
}

Result<void> TfrecordSource::read(std::int64_t sample, ByteBuffer& out) const {
  const auto at = static_cast<std::size_t>(sample);
  const std::uint64_t begin = offsets_[at] + kRecordHeader;
  const auto bytes = out.append(offsets_[at + 1] - begin);
  HVD_CHECK(file().read(begin, bytes));
  const auto data = bytes.first(bytes.size() - kRecordFooter);
  if (!footer_matches(bytes.last<kRecordFooter>(), data))
    return fail(HVD_ERROR_SYSTEM, "the data is damaged (wrong checksum)");
  out.resize(out.size() - kRecordFooter);
  return {};
}

FixedSource::FixedSource(std::string path, InputFile file, std::uint64_t record_bytes,
                         std::uint64_t header_bytes)
    : RecordSource(std::move(path), std::move(file)),
      record_bytes_(record_bytes),
      header_bytes_(header_bytes),
      samples_(static_cast<std::int64_t>((this->file().size() - header_bytes) / record_bytes)) {}

Result<std::unique_ptr<FixedSource>> FixedSource::open(const std::string& path,
                                                       std::uint64_t record_bytes,
                                                       std::uint64_t header_bytes) {
  const auto bad = [&](const std::string& message) {
    return fail(HVD_ERROR_INVALID_ARGUMENT, path + ": " + message);
  };
  if (record_bytes == 0) return bad("records of 0 bytes cannot be counted");
  auto file = InputFile::open(path);
  if (!file.ok()) return with_context(path, file.error());
  if (file->size() < header_bytes)
    return bad("the file has " + std::to_string(file->size()) + " bytes, less than a header of " +
               std::to_string(header_bytes));
  const std::uint64_t over = (file->size() - header_bytes) % record_bytes;
  if (over != 0)
    return bad("after a header of " + std::to_string(header_bytes) +
               " bytes and whole records of " + std::to_string(record_bytes) + ", " +
               std::to_string(over) + " bytes are left");
  return std::unique_ptr<FixedSource>(
      new FixedSource(path, std::move(*file), record_bytes, header_bytes));
}

Result<void> FixedSource::read(std::int64_t sample, ByteBuffer& out) const {
  return file().read(header_bytes_ + static_cast<std::uint64_t>(sample) * record_bytes_,
                     out.append(record_bytes_));
}

}  // namespace libhvd
