#include "io/record_file.hpp"

#include "common/crc32c.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// RecordWriter writes portions of this size.
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

// Reads the headers of a file, forwards. Reads large portions while records are small; otherwise
// little more than each header, because the data between is not needed.
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

// Returns the length of the record at `offset`.
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

Result<void> RecordWriter::write(std::span<const std::byte> data) {
  HVD_CHECK(put(record_header(data.size())));
  HVD_CHECK(put(data));
  return put(record_footer(data));
}

Result<void> RecordWriter::put(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kWriteAtOnce ? Result<void>() : flush();
}

Result<void> RecordWriter::flush() {
  HVD_CHECK(file_.write(buffer_.data(), buffer_.size()));
  buffer_.clear();
  return {};
}

Result<void> RecordWriter::close() {
  HVD_CHECK(flush());
  return file_.commit();
}

}  // namespace libhvd
