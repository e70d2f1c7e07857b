// Files of records: the bytes of TFRecord, damaged files, and records of a fixed length.
#include "io/record_source.hpp"

#include "common/text.hpp"
#include "io/record_file.hpp"
#include "support.hpp"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

class RecordFile : public testing::Test {
 protected:
  std::string path() const { return folder_.file("data.tfrecord"); }
  void put(const std::string& bytes) { std::ofstream(path(), std::ios::binary) << bytes; }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::vector<std::string>& records) {
    auto writer = RecordWriter::open(path());
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (const auto& record : records)
      ASSERT_TRUE(writer->write(std::as_bytes(std::span(record))).ok());
    ASSERT_TRUE(writer->close().ok());
  }

  test::TemporaryFolder folder_;
};

std::string read(const Source& source, std::int64_t sample) {
  ByteBuffer bytes;
  const Result<void> outcome = source.read(sample, bytes);
  if (!outcome.ok()) return "error: " + outcome.error().message;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> read_all(const Source& source) {
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < source.samples(); ++i) records.push_back(read(source, i));
  return records;
}

// The expected bytes come from another program, which computes CRC-32C bit by bit from its
// polynomial.
TEST_F(RecordFile, HasTheBytesOfTheFormat) {
  write({"hvd", ""});
  const std::string written = content();
  EXPECT_EQ(to_hex({reinterpret_cast<const std::uint8_t*>(written.data()), written.size()}),
            "0300000000000000b099490e6876649408f771"
            "000000000000000029039807d8ea82a2");
}

TEST_F(RecordFile, ReadsWhatWasWritten) {
  std::vector<std::string> records{"", "a", std::string(3'000'000, 'b')};
  for (std::size_t i = 0; i < 3000; ++i) records.push_back(std::string(i * 7 % 1000, 'c'));
  for (std::size_t i = 0; i < 20; ++i) records.push_back(std::string(100'000 + i, 'd'));
  write(records);
  const auto source = TfrecordSource::open(path());
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(read_all(**source), records);
  EXPECT_EQ((*source)->label(0), -1);
  EXPECT_EQ((*source)->name(7), path() + " record 7");
  EXPECT_TRUE((*source)->classes().empty());
}

TEST_F(RecordFile, AnEmptyFileHasNoRecords) {
  put("");
  EXPECT_EQ((*TfrecordSource::open(path()))->samples(), 0);
}

TEST_F(RecordFile, EveryFlippedBitIsDetected) {
  const std::vector<std::string> records{"first", "second", ""};
  write(records);
  const std::string good = content();
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    put(bytes);
    const auto source = TfrecordSource::open(path());
    if (!source.ok()) {
      EXPECT_NE(source.error().message.find(": record "), std::string::npos);
      continue;
    }
    int damaged = 0;
    for (const auto& record : read_all(**source)) {
      damaged += record == "error: the data is damaged (wrong checksum)" ? 1 : 0;
    }
    EXPECT_EQ(damaged, 1) << "bit " << bit;
  }
}

TEST_F(RecordFile, ATruncatedFileFailsAndNamesTheRecord) {
  write({"first", "second"});
  const std::string good = content();
  for (std::size_t length = 1; length < good.size(); ++length) {
    put(good.substr(0, length));
    const auto source = TfrecordSource::open(path());
    if (length == 21) {  // just after the first record
      EXPECT_EQ((*source)->samples(), 1);
      continue;
    }
    ASSERT_FALSE(source.ok()) << length;
    const std::string record = length < 21 ? "record 0 (at byte 0): " : "record 1 (at byte 21): ";
    EXPECT_TRUE(source.error().message.starts_with(path() + ": " + record + "the file ends"))
        << source.error().message;
  }
}

// A length near 2^64 must not wrap around.
TEST_F(RecordFile, ALengthNear2To64IsRefused) {
  const auto header = record_header(~std::uint64_t{0} - 8);
  put(std::string(reinterpret_cast<const char*>(header.data()), header.size()) + "more bytes");
  EXPECT_NE(TfrecordSource::open(path()).error().message.find("18446744073709551607 bytes of data"),
            std::string::npos);
}

TEST_F(RecordFile, OtherFilesAreRefused) {
  put(std::string("\x1f\x8b\x08\x00", 4) + std::string(60, 'x'));
  EXPECT_NE(TfrecordSource::open(path()).error().message.find("compressed (gzip)"),
            std::string::npos);
  put(std::string(1000, 'x'));
  EXPECT_NE(TfrecordSource::open(path()).error().message.find("or the file is no TFRecord file"),
            std::string::npos);
  EXPECT_EQ(TfrecordSource::open(folder_.path()).error().message,
            folder_.path().string() + ": is not a regular file");
  EXPECT_EQ(TfrecordSource::open("/nonexistent").error().message,
            "/nonexistent: cannot be opened: No such file or directory");
}

TEST_F(RecordFile, ReadingAFileThatHasShrunkFails) {
  write({"first", "second"});
  const auto source = TfrecordSource::open(path());
  put("short");
  EXPECT_TRUE(read(**source, 0).starts_with("error: ends at byte 5, 16 bytes early") ||
              read(**source, 0).starts_with("error: ends at byte 12"))
      << read(**source, 0);
}

TEST_F(RecordFile, DoesNotExistBeforeItIsClosed) {
  {
    auto writer = RecordWriter::open(path());
    ASSERT_TRUE(writer->write(std::as_bytes(std::span("lost"))).ok());
  }
  EXPECT_TRUE(folder_.entries().empty());
}

TEST_F(RecordFile, FixedRecordsAreRead) {
  put("HEADaabbcc");
  const auto source = FixedSource::open(path(), 2, 4);
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(read_all(**source), (std::vector<std::string>{"aa", "bb", "cc"}));
  EXPECT_EQ((*FixedSource::open(path(), 10, 0))->samples(), 1);
  EXPECT_EQ((*FixedSource::open(path(), 7, 10))->samples(), 0);
}

TEST_F(RecordFile, FixedRecordsMustFillTheFile) {
  put("HEADaabbc");
  const auto error = [&](std::uint64_t record, std::uint64_t header) {
    return FixedSource::open(path(), record, header).error().message;
  };
  EXPECT_EQ(error(2, 4),
            path() + ": after a header of 4 bytes and whole records of 2, 1 bytes are left");
  EXPECT_EQ(error(0, 4), path() + ": records of 0 bytes cannot be counted");
  EXPECT_EQ(error(2, 10), path() + ": the file has 9 bytes, less than a header of 10");
}

}  // namespace
}  // namespace libhvd
