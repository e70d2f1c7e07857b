#include "io/record_source.hpp"

#include "base/crc32c.hpp"

#include <algorithm>
#include <array>

namespace libhvd {
namespace {

constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;

template <class T>
void store(std::byte* where, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    where[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <class T>
T load(const std::byte* where) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(where[i]) << (8 * i);
  return value;
}

Error damaged(const std::string& message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, message);
}

// Reads a file forwards in pieces: large ones while records are small, else little more than the
// header, because what lies between is not wanted.
class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file) : file_(file) {}

  Result<std::span<const std::byte, kRecordHeader>> at(std::uint64_t offset) {
    if (offset < begin_ || offset + kRecordHeader > begin_ + filled_) {
      constexpr std::uint64_t kSmall = 4096;
      const std::uint64_t skipped = offset - begin_;
      const std::uint64_t wanted = skipped < 2 * filled_ ? bytes_.size() : kSmall;
      begin_ = offset;
      filled_ = 0;
      const auto count = static_cast<std::size_t>(std::min(wanted, file_.size() - offset));
      HVD_CHECK(file_.read(offset, {bytes_.data(), count}));
      filled_ = count;
    }
    return std::span<const std::byte, kRecordHeader>(
        bytes_.data() + static_cast<std::size_t>(offset - begin_), kRecordHeader);
  }

 private:
  const InputFile& file_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(64 * 1024);
  std::uint64_t begin_ = 0;
  std::uint64_t filled_ = 0;
};

// The length of the record at `offset`.
Result<std::uint64_t> length_at(HeaderReader& headers, const InputFile& file,
                                std::uint64_t offset) {
  const std::uint64_t left = file.size() - offset;
  if (left < kRecordHeader + kRecordFooter) return damaged("the file ends within it");
  HVD_TRY(const auto header, headers.at(offset));
  if (offset == 0 && header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b})
    return damaged("the file is compressed (gzip); uncompress it first");
  HVD_TRY(const std::uint64_t length, parse_record_header(header));
  if (length > left - kRecordHeader - kRecordFooter)
    return damaged("the file ends within it (it has " + std::to_string(length) + " bytes of data)");
  return length;
}

}  // namespace

std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

std::array<std::byte, kRecordHeader> record_header(std::uint64_t length) {
  std::array<std::byte, kRecordHeader> header{};
  store(header.data(), length);
  store(header.data() + 8, masked_crc(std::span(header).first<8>()));
  return header;
}

std::array<std::byte, kRecordFooter> record_footer(std::span<const std::byte> data) {
  std::array<std::byte, kRecordFooter> footer{};
  store(footer.data(), masked_crc(data));
  return footer;
}

Result<std::uint64_t> parse_record_header(std::span<const std::byte, kRecordHeader> header) {
  if (load<std::uint32_t>(header.data() + 8) != masked_crc(header.first<8>()))
    return damaged("its length is damaged (wrong checksum), or the file is no TFRecord file");
  return load<std::uint64_t>(header.data());
}

bool footer_matches(std::span<const std::byte, kRecordFooter> footer,
                    std::span<const std::byte> data) {
  return load<std::uint32_t>(footer.data()) == masked_crc(data);
}

Result<std::vector<std::uint64_t>> index_records(const InputFile& file) {
  std::vector<std::uint64_t> offsets{0};
  HeaderReader headers(file);
  while (offsets.back() < file.size()) {
    const auto length = length_at(headers, file, offsets.back());
    if (!length.ok())
      return with_context("record " + std::to_string(offsets.size() - 1) + " (at byte " +
                              std::to_string(offsets.back()) + ")",
                          length.error());
    offsets.push_back(offsets.back() + kRecordHeader + *length + kRecordFooter);
  }
  offsets.shrink_to_fit();
  return offsets;
}

Result<RecordWriter> RecordWriter::open(const std::string& path) {
  HVD_TRY(AtomicFile file, AtomicFile::create(path, {.kind = "records"}));
  return RecordWriter(std::move(file));
}

Outcome RecordWriter::write(std::span<const std::byte> data) {
  HVD_CHECK(put(record_header(data.size())));
  HVD_CHECK(put(data));
  return put(record_footer(data));
}

Outcome RecordWriter::put(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kWriteAtOnce ? Outcome(Done{}) : flush();
}

Outcome RecordWriter::flush() {
  HVD_CHECK(file_.write(buffer_.data(), buffer_.size()));
  buffer_.clear();
  return Done{};
}

Outcome RecordWriter::close() {
  HVD_CHECK(flush());
  return file_.commit();
}

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

Outcome TfrecordSource::read(std::int64_t sample, ByteBuffer& out) const {
  const auto at = static_cast<std::size_t>(sample);
  const std::uint64_t begin = offsets_[at] + kRecordHeader;
  const auto bytes = out.append(offsets_[at + 1] - begin);
  HVD_CHECK(file().read(begin, bytes));
  const auto data = bytes.first(bytes.size() - kRecordFooter);
  if (!footer_matches(bytes.last<kRecordFooter>(), data))
    return fail(HVD_ERROR_SYSTEM, "the data is damaged (wrong checksum)");
  out.resize(out.size() - kRecordFooter);
  return Done{};
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

Outcome FixedSource::read(std::int64_t sample, ByteBuffer& out) const {
  return file().read(header_bytes_ + static_cast<std::uint64_t>(sample) * record_bytes_,
                     out.append(record_bytes_));
}

}  // namespace libhvd
