// Tests the whole of output/ on real descriptors and a real event loop.
#include "output/output.hpp"

#include "base/system.hpp"
#include "loop_fixture.hpp"

#include <thread>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::minutes;

Fd null_device() {
  return Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
}

TEST_F(OutputTest, WritesLinesToTheirDescriptorsInOneTurn) {
  const Pipe out = pipe_with_nonblocking_reader(), err = pipe_with_nonblocking_reader();
  open({out.write.get(), err.write.get()});
  write(0, "a\n");
  write(1, "b\n", Stream::err);
  output_->note("c");
  EXPECT_FALSE(output_->idle());
  turn();
  EXPECT_TRUE(output_->idle());
  EXPECT_EQ(read_available(out.read.get()), "[0] a\n");
  EXPECT_EQ(read_available(err.read.get()), "[1] b\nhvdrun: note: c\n");
}

TEST_F(OutputTest, KeepsTheOrderOfLinesIfBothDescriptorsAreOneFile) {
  const Pipe pipe = pipe_with_nonblocking_reader();
  const Fd copy(::dup(pipe.write.get()));
  open({pipe.write.get(), copy.get()});
  write(0, "prompt");
  write(0, "1\n", Stream::err);
  write(1, "2\n");
  output_->note("3");
  output_->close(0, Stream::out);
  output_->flush(minutes(1));
  EXPECT_EQ(read_available(pipe.read.get()), "[0] 1\n[1] 2\nhvdrun: note: 3\n[0] prompt\n");
}

TEST_F(OutputTest, NextAttemptKeepsFilesAndForgetsLastLines) {
  const TemporaryFolder folder;
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  OutputSpec spec;
  spec.label = "{rank}@{host} ";
  spec.directory = folder.path();
  open({out.write.get(), null.get()}, spec);
  write(1, "first\n");
  write(1, "trouble\n", Stream::err);
  EXPECT_EQ(output_->last_stderr(1), std::vector<std::string>{"trouble"});
  ASSERT_TRUE(output_->begin(placement_of(2, 1)));  // rank 1 moves to n1
  EXPECT_TRUE(output_->last_stderr(1).empty());
  write(1, "second\n");
  output_->flush(minutes(1));
  EXPECT_EQ(read_available(out.read.get()), "1@n0 first\n1@n1 second\n");
  EXPECT_EQ(contents(folder.path() / "rank.0001/stdout"), "first\nsecond\n");
}

TEST_F(OutputTest, ShowsRanksThatAreStartedLater) {
  for (const auto fold : {FoldLines::off, FoldLines::on}) {
    const TemporaryFolder folder;
    const Pipe out = pipe_with_nonblocking_reader();
    const Fd null = null_device();
    OutputSpec spec;
    spec.directory = folder.path();
    spec.fold = fold;
    open({out.write.get(), null.get()}, spec);
    write(2, "too early\n");
    RankPlacement rank;
    rank.rank = 2;
    output_->add("n1", rank);
    write(2, "later\n");
    write(2, "trouble\n", Stream::err);
    write(0, "now\n");
    for (const int each : {0, 2}) output_->close(each, Stream::out);
    output_->flush(minutes(1));
    EXPECT_EQ(read_available(out.read.get()), "[2] later\n[0] now\n");
    EXPECT_EQ(output_->last_stderr(2), std::vector<std::string>{"trouble"});
    EXPECT_EQ(contents(folder.path() / "rank.0002/stdout"), "later\n");
  }
}

TEST_F(OutputTest, ShowsAPromptAfterAPause) {
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()});
  write(1, "input: ");
  std::string shown;
  run_until([&] { return !(shown += read_available(out.read.get())).empty(); });
  EXPECT_EQ(shown, "[1] input: ");
  write(0, "line\n");
  turn();
  EXPECT_EQ(read_available(out.read.get()), "\n[0] line\n");
}

TEST_F(OutputTest, ShowsAPromptBeforeTheNextLineOfProgressIsDue) {
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()});
  std::string shown;
  write(0, "1%\r");
  run_until([&] { return !(shown += read_available(out.read.get())).empty(); });
  write(0, "2%\r");
  // The next line for rank 0 is due in ten seconds. Rank 1's prompt comes before it.
  turn();
  write(1, "input: ");
  run_until([&] { return shown += read_available(out.read.get()), shown.size() > 7; });
  EXPECT_EQ(shown, "[0] 1%\n[1] input: ");
}

TEST_F(OutputTest, CongestsUntilTheReaderReads) {
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()});
  const std::string chunk(64 * 1024 - 1, 'x');
  std::size_t written = 0;
  while (!output_->congested()) {
    write(0, chunk + "\n");
    written += chunk.size() + 1 + 4;
    turn();
    ASSERT_LT(written, 16u << 20) << "memory is not bounded";
  }
  EXPECT_FALSE(output_->idle());
  output_->flush(std::chrono::milliseconds(0));
  EXPECT_TRUE(output_->congested());
  EXPECT_EQ(reliefs_, 0);

  std::size_t got = 0;
  run_until([&] {
    got += read_available(out.read.get()).size();
    return output_->idle();
  });
  got += read_available(out.read.get()).size();
  EXPECT_EQ(got, written);
  EXPECT_FALSE(output_->congested());
  EXPECT_EQ(reliefs_, 1);
}

TEST_F(OutputTest, UnfinishedLineDoesNotCongest) {
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()});
  const std::string mega(1024 * 1024, 'x');
  for (int i = 0; i < 10; ++i) write(0, mega);
  EXPECT_FALSE(output_->congested()) << "otherwise the rank could not send the line's end";
  write(0, "\n");
  EXPECT_TRUE(output_->congested());
}

TEST_F(OutputTest, ClosedReaderStopsTheJobOnceWithAnyOption) {
  Pipe out = pipe_with_nonblocking_reader();
  const Pipe err = pipe_with_nonblocking_reader();
  open({out.write.get(), err.write.get()}, {.on_error = OnOutputError::keep_running});
  write(0, "a\n");
  turn();
  out.read.reset();
  for (int i = 0; i < 3; ++i) {
    write(0, "b\n");
    write(1, "c\n", Stream::err);
    EXPECT_TRUE(i > 0 || errors_.empty()) << "never from within write()";
    turn();
  }
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].first.exit_code, 141);
  EXPECT_TRUE(errors_[0].second);
  EXPECT_EQ(read_available(err.read.get()), "[1] c\n[1] c\n[1] c\n")
      << "the other sink still works";
  EXPECT_TRUE(output_->idle());
}

TEST_F(OutputTest, ClosedReaderEndsCongestion) {
  Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()});
  const std::string chunk(64 * 1024 - 1, 'x');
  while (!output_->congested()) write(0, chunk + "\n");
  out.read.reset();
  run_until([&] { return reliefs_ > 0; });
  EXPECT_EQ(errors_.size(), 1u);
  EXPECT_TRUE(output_->idle());
}

TEST_F(OutputTest, ReportsAFullDiskOfStdoutOnce) {
  for (const auto choice : {OnOutputError::keep_running, OnOutputError::stop}) {
    errors_.clear();
    const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    const Pipe err = pipe_with_nonblocking_reader();
    open({full.get(), err.write.get()}, {.on_error = choice});
    write(0, std::string(500'000, 'x') + "\n");
    EXPECT_FALSE(output_->idle()) << "the error is not reported yet";
    turn();
    write(0, "y\n");
    write(0, "z\n", Stream::err);
    turn();
    ASSERT_EQ(errors_.size(), 1u);
    EXPECT_NE(errors_[0].first.message.find("No space left on device"), std::string::npos);
    EXPECT_EQ(errors_[0].second, choice == OnOutputError::stop);
    EXPECT_EQ(read_available(err.read.get()), "[0] z\n");
    EXPECT_EQ(output_->losses().size(), 1u);
    EXPECT_TRUE(output_->idle());
  }
}

TEST_F(OutputTest, FullDiskOfTheFilesDoesNotAffectTheTerminal) {
  const TemporaryFolder folder;
  const Pipe out = pipe_with_nonblocking_reader();
  const Fd null = null_device();
  open({out.write.get(), null.get()}, {.directory = folder.path() / "logs"});
  for (const char* rank : {"rank.0000", "rank.0001"}) {
    const auto file = folder.path() / "logs" / rank / "stdout";
    std::filesystem::remove(file);
    std::filesystem::create_symlink("/dev/full", file);
  }
  for (int rank = 0; rank < 2; ++rank) write(rank, "x\n");
  turn();
  ASSERT_EQ(errors_.size(), 1u) << "the files are one sink";
  EXPECT_NE(errors_[0].first.message.find("rank.0000/stdout"), std::string::npos);
  EXPECT_FALSE(errors_[0].second);
  EXPECT_EQ(output_->losses().size(), 2u);
  EXPECT_EQ(read_available(out.read.get()), "[0] x\n[1] x\n");
}

TEST_F(OutputTest, OnlyRankFiltersTheTerminalButNotFilesAndReport) {
  const TemporaryFolder folder;
  const Pipe out = pipe_with_nonblocking_reader(), err = pipe_with_nonblocking_reader();
  open({out.write.get(), err.write.get()},
       {.directory = folder.path(), .only_ranks = *RankSet::parse("1")});
  for (int rank = 0; rank < 2; ++rank) {
    write(rank, "x\n");
    write(rank, "y\nlast", Stream::err);
  }
  turn();
  EXPECT_EQ(read_available(out.read.get()), "[1] x\n");
  EXPECT_EQ(read_available(err.read.get()), "[1] y\n");
  EXPECT_EQ(contents(folder.path() / "rank.0000/stdout"), "x\n");
  EXPECT_EQ(contents(folder.path() / "rank.0000/stderr"), "y\nlast");
  EXPECT_THAT(output_->last_stderr(0), testing::ElementsAre("y", "last"));
  EXPECT_TRUE(output_->last_stderr(7).empty());
}

TEST_F(OutputTest, InvalidLabelOrDirectoryIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  OutputSpec bad_label, bad_directory;
  bad_label.label = "{what}";
  bad_directory.directory = folder.path() / "file";
  for (const OutputSpec* spec : {&bad_label, &bad_directory}) {
    const auto made = Output::open(loop_.get(), *spec, {});
    const auto begun = made ? (*made)->begin(placement_of(2)) : made.error();
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().exit_code, kExitUsage);
  }
}

TEST_F(OutputTest, MillionLinesArriveWholeAndInOrder) {
  constexpr int kRanks = 4, kLines = 250'000;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const Fd null = null_device();
  open({pipe->write.get(), null.get()}, {}, kRanks);

  int broken = 0;
  int next[kRanks] = {};
  std::thread reader([&] {
    std::string rest;
    std::vector<char> buffer(100'003);
    ssize_t count = 0;
    while ((count = ::read(pipe->read.get(), buffer.data(), buffer.size())) > 0) {
      rest.append(buffer.data(), static_cast<std::size_t>(count));
      std::size_t begin = 0, end = 0;
      for (; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const int rank = rest[begin + 1] - '0';
        if (rank < 0 || rank >= kRanks) {
          ++broken;
          continue;
        }
        const std::string expected =
            "[" + std::to_string(rank) + "] line " + std::to_string(next[rank]++);
        broken += rest.compare(begin, end - begin, expected) != 0;
      }
      rest.erase(0, begin);
    }
    broken += !rest.empty();
  });

  std::string texts[kRanks];
  for (auto& text : texts)
    for (int line = 0; line < kLines; ++line) text += "line " + std::to_string(line) + "\n";
  // Each rank has chunks of another odd size, so that nearly all of them end within a line.
  for (std::size_t at = 0, done = 0; done < kRanks; ++at) {
    done = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::size_t length = 10'007 + 999 * static_cast<std::size_t>(rank);
      if (at * length >= texts[rank].size()) {
        ++done;
        continue;
      }
      write(rank, std::string_view(texts[rank]).substr(at * length, length));
    }
    turn();
    run_until([&] { return !output_->congested(); });
  }
  for (int rank = 0; rank < kRanks; ++rank) output_->close(rank, Stream::out);
  output_->flush(minutes(5));
  EXPECT_TRUE(output_->idle());
  output_.reset();
  pipe->write.reset();
  reader.join();
  EXPECT_EQ(broken, 0);
  for (const int count : next) EXPECT_EQ(count, kLines);
}

}  // namespace
}  // namespace hvdrun
