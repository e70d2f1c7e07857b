#include "protocol/frame.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

struct Sent {
  FrameType type;
  std::uint32_t destination;
  std::string payload;
};

std::string encode(const std::vector<Sent>& frames) {
  std::string bytes;
  for (const auto& frame : frames) {
    char header[kFrameHeaderSize];
    encode_frame_header(header, frame.type, frame.destination, frame.payload.size());
    bytes.append(header, sizeof header);
    bytes += frame.payload;
  }
  return bytes;
}

// Feeds `bytes` in pieces of at most `piece` bytes and returns the frames.
Result<std::vector<Sent>> decode(const std::string& bytes, std::size_t piece) {
  FrameReader reader;
  std::vector<Sent> frames;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto room = reader.room();
    const auto count = std::min({piece, room.size, bytes.size() - at});
    std::memcpy(room.data, bytes.data() + at, count);
    reader.filled(count);
    at += count;
    Frame frame{};
    while (true) {
      HVD_TRY(const auto status, reader.next(frame));
      if (status == FrameReader::Status::need_more) break;
      frames.push_back({frame.type, frame.destination, std::string(frame.payload)});
    }
  }
  return frames;
}

TEST(FrameBounds, KnowsWhereAFrameEndsHoweverTheBytesAreSplit) {
  const std::string first = encode({{FrameType::hello, 0, "abc"}});
  const std::string second = encode({{FrameType::output, kToLauncher, ""}});
  const std::string bytes = first + second;
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameBounds bounds;
    EXPECT_TRUE(bounds.between_frames());
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      bounds.passed(std::string_view(bytes).substr(at, piece));
      const auto passed = std::min(at + piece, bytes.size());
      EXPECT_EQ(bounds.between_frames(), passed == first.size() || passed == bytes.size())
          << passed << " bytes in pieces of " << piece;
    }
  }
}

TEST(FrameReader, ReturnsTheSameFramesHoweverTheBytesAreSplit) {
  const std::vector<Sent> sent{{FrameType::hello, 0, "abc"},
                               {FrameType::output, kToLauncher, ""},
                               {FrameType::launch, 7, std::string(1000, 'x')}};
  const auto bytes = encode(sent);
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto got = decode(bytes, piece);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(got->size(), sent.size()) << "cut into pieces of " << piece;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ((*got)[i].type, sent[i].type);
      EXPECT_EQ((*got)[i].destination, sent[i].destination);
      EXPECT_EQ((*got)[i].payload, sent[i].payload);
    }
  }
}

TEST(FrameReader, ReadsFramesLargerThanItsBuffer) {
  std::mt19937 random(1);
  std::vector<Sent> sent;
  for (int i = 0; i < 20; ++i)
    sent.push_back({FrameType::output, static_cast<std::uint32_t>(i),
                    std::string(random() % 700'000, static_cast<char>('a' + i))});
  const auto got = decode(encode(sent), 100'000);
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ((*got)[i].payload, sent[i].payload);
}

TEST(FrameReader, RefusesATooLargeFrame) {
  char header[kFrameHeaderSize];
  encode_frame_header(header, FrameType::hello, 0, kMaxPayload + 1);
  const auto got = decode(std::string(header, sizeof header), 12);
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("67108865 bytes"), std::string::npos) << got.error().message;
}

TEST(FrameReader, WaitsForTheRestOfAnIncompleteFrame) {
  auto bytes = encode({{FrameType::hello, 0, "abc"}});
  bytes.pop_back();
  const auto got = decode(bytes, bytes.size());
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->empty());
}

// --- text of a login shell before the first frame ------------------------------------------------

// Feeds `bytes` in pieces of at most `piece` bytes. Returns the types of the frames and the text
// before them.
Result<std::vector<FrameType>> types_after_text(const std::string& bytes, std::size_t piece,
                                                std::string& text) {
  FrameReader reader(true);
  std::vector<FrameType> types;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto room = reader.room();
    const auto count = std::min({piece, room.size, bytes.size() - at});
    std::memcpy(room.data, bytes.data() + at, count);
    reader.filled(count);
    at += count;
    for (Frame frame{};;) {
      const auto status = reader.next(frame);
      if (!status) return status.error();
      if (*status == FrameReader::Status::need_more) break;
      types.push_back(frame.type);
    }
  }
  text = reader.text();
  return types;
}

TEST(FrameReader, SkipsTextBeforeTheFirstFrame) {
  const auto frames = encode({{FrameType::alive, kToLauncher, ""}, {FrameType::hello, 0, "x"}});
  // The last two look like the beginning of a frame.
  for (const std::string& before :
       {std::string(), std::string("hello from bashrc\nno newline"), std::string(500, 'x'),
        std::string(11, '\0'), std::string("\0\0\0\0\x80", 5)})
    for (const std::size_t piece : {1u, 7u, 12u, 13u, 1u << 16}) {
      std::string text;
      const auto types = types_after_text(before + frames, piece, text);
      ASSERT_TRUE(types) << types.error().message;
      EXPECT_EQ(*types, (std::vector{FrameType::alive, FrameType::hello}))
          << before << " in pieces of " << piece;
      EXPECT_EQ(text, before);
    }
}

TEST(FrameReader, KeepsTextWithoutAFrame) {
  std::string text;
  EXPECT_TRUE(types_after_text("This account is currently not available.\n", 5, text)->empty());
  EXPECT_EQ(text, "This account is currently not available.\n");
  const auto endless = types_after_text(std::string(2u << 20, 'y'), 4096, text);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().message, "the login prints more than 1 MB before hvdrun can start");
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(FrameReader, TakesNoMemoryForRoomThatIsNotFilled) {
  constexpr std::size_t kReaders = 400;
  std::deque<FrameReader> readers;
  std::size_t offered = 0;
  const auto before = resident_bytes();
  for (std::size_t i = 0; i < kReaders; ++i) offered += readers.emplace_back().room().size;
  EXPECT_LT(resident_bytes() - before, offered / 2);
}

}  // namespace
}  // namespace hvdrun
