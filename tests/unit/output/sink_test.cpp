#include "output/sink.hpp"

#include "base/system.hpp"
#include "fixtures.hpp"
#include "socket_pair.hpp"

#include <csignal>

#include <sys/socket.h>

namespace hvdrun {
namespace {

class SinkTest : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }
};

const std::string kMany(8'000'000, 'x');  // more than a pipe or socket holds

TEST_F(SinkTest, DoesNotChangeTheFlagsOfASharedPipe) {
  const Pipe pipe = pipe_with_nonblocking_reader();
  Sink sink(pipe.write.get(), "out");
  EXPECT_EQ(::fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK, 0);
  sink.queue().append(kMany);
  EXPECT_EQ(sink.pump(), Sink::State::blocked) << "pump() must not wait";
  EXPECT_EQ(::fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(SinkTest, WritesEverythingToAReader) {
  const Pipe pipe = pipe_with_nonblocking_reader();
  Sink sink(pipe.write.get(), "out");
  sink.queue().append(kMany);
  std::string got;
  while (sink.pump() != Sink::State::empty) got += read_available(pipe.read.get());
  got += read_available(pipe.read.get());
  EXPECT_EQ(got, kMany);
  EXPECT_FALSE(sink.error());
}

TEST_F(SinkTest, DoesNotWaitForASocket) {
  auto [ours, theirs] = make_socket_pair();
  Sink sink(ours.get(), "out");
  sink.queue().append(kMany);
  EXPECT_EQ(sink.pump(), Sink::State::blocked);
  EXPECT_EQ(::fcntl(ours.get(), F_GETFL) & O_NONBLOCK, 0);
  theirs.reset();
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  ASSERT_TRUE(sink.error());
  EXPECT_EQ(sink.error()->exit_code, kExitSignalBase + SIGPIPE);
}

TEST_F(SinkTest, ClosedReaderIsASpecialErrorAndTheRestIsDropped) {
  for (const bool before : {true, false}) {
    Pipe pipe = pipe_with_nonblocking_reader();
    if (before) pipe.read.reset();
    Sink sink(pipe.write.get(), "hvdrun's stdout");
    pipe.read.reset();
    sink.queue().append("12345");
    EXPECT_EQ(sink.pump(), Sink::State::empty);
    ASSERT_TRUE(sink.error());
    EXPECT_EQ(sink.error()->message, "the reader of hvdrun's stdout has gone");
    EXPECT_EQ(sink.error()->exit_code, 141);
    sink.queue().append("678");
    EXPECT_EQ(sink.pump(), Sink::State::empty);
    EXPECT_EQ(sink.loss(),
              "8 bytes for hvdrun's stdout were lost: the reader of hvdrun's stdout has gone");
  }
}

TEST_F(SinkTest, ReportsAFullDisk) {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  Sink sink(full.get(), "hvdrun's stdout");
  sink.queue().append("x");
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  ASSERT_TRUE(sink.error());
  EXPECT_EQ(sink.error()->exit_code, kExitLauncher);
  EXPECT_NE(sink.error()->message.find("No space left on device"), std::string::npos);
}

TEST_F(SinkTest, RetriesAfterAFailureAndStartsANewLine) {
  const TemporaryFolder folder;
  const Fd file(::open((folder.path() / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Fd place(::dup(file.get()));
  Sink sink(place.get(), "hvdrun's stdout");
  sink.queue().append("half a");
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  ASSERT_EQ(::dup2(full.get(), place.get()), place.get());
  sink.queue().append(" line\n");
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  EXPECT_TRUE(sink.failed());
  sink.try_again();
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  EXPECT_TRUE(sink.failed()) << "the disk is still full";
  ASSERT_EQ(::dup2(file.get(), place.get()), place.get());
  sink.try_again();
  sink.queue().append("the last line\n");
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  EXPECT_FALSE(sink.failed());
  EXPECT_EQ(contents(folder.path() / "f"), "half a\nthe last line\n");
  ASSERT_TRUE(sink.loss()) << "bytes lost before stay lost";
  EXPECT_TRUE(sink.loss()->starts_with("7 bytes for hvdrun's stdout were lost: ")) << *sink.loss();
}

TEST_F(SinkTest, WritesToARegularFileAtItsOffset) {
  const TemporaryFolder folder;
  const Fd file(::open((folder.path() / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), "before ", 7), 7);
  Sink sink(file.get(), "out");
  sink.queue().append("after");
  EXPECT_EQ(sink.pump(), Sink::State::empty);
  EXPECT_EQ(contents(folder.path() / "f"), "before after");
}

TEST_F(SinkTest, RecognizesTwoDescriptorsOfOneFile) {
  const Pipe pipe = pipe_with_nonblocking_reader();
  const Pipe other = pipe_with_nonblocking_reader();
  const Fd copy(::dup(pipe.write.get()));
  EXPECT_TRUE(same_place(pipe.write.get(), copy.get()));
  EXPECT_FALSE(same_place(pipe.write.get(), other.write.get()));
  EXPECT_FALSE(same_place(pipe.write.get(), -1));
}

}  // namespace
}  // namespace hvdrun
