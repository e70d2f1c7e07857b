#include "output/rank_files.hpp"

#include "fixtures.hpp"

#include <sys/stat.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

TEST(RankFiles, AreCreatedInAFolderPerRankEvenIfEmpty) {
  const TemporaryFolder folder;
  auto files = RankFiles::create(folder.path() / "logs" / "today", 2);
  ASSERT_TRUE(files) << files.error().message;
  files->write(1, Stream::out, "raw\rbytes");
  files->write(1, Stream::out, "\n more");
  files->write(0, Stream::err, "err");
  const fs::path logs = folder.path() / "logs" / "today";
  EXPECT_EQ(contents(logs / "rank.0001/stdout"), "raw\rbytes\n more");
  EXPECT_EQ(contents(logs / "rank.0000/stderr"), "err");
  EXPECT_TRUE(fs::exists(logs / "rank.0000/stdout"));
  EXPECT_EQ(fs::file_size(logs / "rank.0001/stderr"), 0u);
  EXPECT_FALSE(files->error());
  EXPECT_TRUE(files->losses().empty());
}

TEST(RankFiles, OfRanksThatAreStartedLater) {
  const TemporaryFolder folder;
  auto files = RankFiles::create(folder.path(), 1);
  ASSERT_TRUE(files);
  files->write(1, Stream::out, "lost");
  files->add(2);
  files->add(1);  // a restart
  files->write(1, Stream::out, "later\n");
  EXPECT_EQ(contents(folder.path() / "rank.0001/stdout"), "later\n");
  EXPECT_TRUE(files->losses().empty());
}

TEST(RankFiles, OfAnEarlierRunAreEmptied) {
  const TemporaryFolder folder;
  for (const char* text : {"a long text of the first run", "second"}) {
    auto files = RankFiles::create(folder.path(), 1);
    ASSERT_TRUE(files);
    files->write(0, Stream::out, text);
  }
  EXPECT_EQ(contents(folder.path() / "rank.0000/stdout"), "second");
}

void write_all(const fs::path& folder, int ranks, const JobPart& part, std::string_view text) {
  auto files = RankFiles::create(folder, ranks, part);
  ASSERT_TRUE(files) << files.error().message;
  for (int rank = 0; rank < ranks; ++rank) files->write(rank, Stream::out, text);
}

TEST(RankFiles, OfAnEarlierPartOfTheJobAreAppendedTo) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "rank.0001/stdout";
  write_all(folder.path(), 2, {"12", 0}, "part 0\n");
  write_all(folder.path(), 2, {"12", 1}, "part 1\n");
  EXPECT_EQ(contents(out), "part 0\npart 1\n");
  write_all(folder.path(), 2, {"13", 1}, "another job\n");
  EXPECT_EQ(contents(out), "another job\n");
  write_all(folder.path(), 2, {}, "by hand\n");
  EXPECT_EQ(contents(out), "by hand\n");
}

TEST(RankFiles, RemovesOutputOfRanksThatTheRunDoesNotHave) {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  write_all(folder.path(), 4, {}, "4 ranks");
  for (const char* name :
       {"rank.0003/notes", "rank.9/stdout", "rank.0002x/stdout", "elsewhere/stdout"}) {
    fs::create_directories(at(name).parent_path());
    std::ofstream(at(name)) << "the user's";
  }
  fs::create_directory_symlink(at("elsewhere"), at("rank.0007"));
  write_all(folder.path(), 2, {}, "2 ranks");
  EXPECT_EQ(contents(at("rank.0001/stdout")), "2 ranks");
  EXPECT_FALSE(fs::exists(at("rank.0002")));
  EXPECT_FALSE(fs::exists(at("rank.0003/stdout")));
  for (const char* name :
       {"rank.0003/notes", "rank.9/stdout", "rank.0002x/stdout", "elsewhere/stdout"})
    EXPECT_EQ(contents(at(name)), "the user's") << name;
}

TEST(RankFiles, AreKeptFromAnotherTaskOfTheSameJobArray) {
  const TemporaryFolder folder;
  write_all(folder.path(), 1, {"12_0", 0}, "task 0");
  const auto second = RankFiles::create(folder.path(), 1, {"12_1", 0});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().exit_code, kExitUsage);
  EXPECT_NE(second.error().message.find("/$SLURM_ARRAY_TASK_ID"), std::string::npos);
  EXPECT_TRUE(RankFiles::create(folder.path(), 1, {"12_0", 0})) << "the same task again";
  EXPECT_TRUE(RankFiles::create(folder.path(), 1, {"13_1", 0})) << "another array";
}

TEST(RankFiles, AreLockedAgainstASecondRun) {
  const TemporaryFolder folder;
  auto first = RankFiles::create(folder.path(), 1, {"12", 0});
  ASSERT_TRUE(first);
  first->write(0, Stream::out, "first");
  for (const JobPart& part : {JobPart{}, JobPart{"12", 0}, JobPart{"13", 1}}) {
    const auto second = RankFiles::create(folder.path(), 1, part);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().exit_code, kExitUsage);
    EXPECT_NE(second.error().message.find("process id " + std::to_string(::getpid()) + " on "),
              std::string::npos)
        << second.error().message;
    EXPECT_NE(second.error().message.find("(SLURM job 12) writes to"), std::string::npos);
  }
  EXPECT_EQ(contents(folder.path() / "rank.0000/stdout"), "first");
  // A later part of the same job may write, since NFS may keep the lock of a lost host.
  EXPECT_TRUE(RankFiles::create(folder.path(), 1, {"12", 1}));
  EXPECT_EQ(contents(folder.path() / "rank.0000/stdout"), "first");
}

TEST(RankFiles, FolderNumbersAreWideEnoughForTheHighestRank) {
  EXPECT_EQ(RankFiles::folder_name(7, 8), "rank.0007");
  EXPECT_EQ(RankFiles::folder_name(7, 10'000), "rank.0007");
  EXPECT_EQ(RankFiles::folder_name(7, 10'001), "rank.00007");
  EXPECT_EQ(RankFiles::folder_name(10'000, 10'001), "rank.10000");
}

TEST(RankFiles, WorkAboveTheLimitOfOpenFiles) {
  const TemporaryFolder folder;
  auto files = RankFiles::create(folder.path(), 10, {}, 3);
  ASSERT_TRUE(files);
  for (int round = 0; round < 5; ++round)
    for (int rank = 0; rank < 10; ++rank) files->write(rank, Stream::out, std::to_string(round));
  for (int rank = 0; rank < 10; ++rank)
    EXPECT_EQ(contents(folder.path() / ("rank.000" + std::to_string(rank)) / "stdout"), "01234");
}

TEST(RankFiles, FullDiskIsReportedOnceAndOtherFilesStillWork) {
  const TemporaryFolder folder;
  auto files = RankFiles::create(folder.path(), 2);
  ASSERT_TRUE(files);
  const fs::path full = folder.path() / "rank.0000/stdout";
  fs::remove(full);
  fs::create_symlink("/dev/full", full);
  files->write(0, Stream::out, "12345");
  files->write(0, Stream::out, "678");
  files->write(1, Stream::out, "fine");
  ASSERT_TRUE(files->error());
  EXPECT_NE(files->error()->message.find(full.string() + "': No space left on device"),
            std::string::npos)
      << files->error()->message;
  const auto losses = files->losses();
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_NE(losses[0].find("stdout of rank 0 is not complete: the last 8 bytes"), std::string::npos)
      << losses[0];
  EXPECT_EQ(contents(folder.path() / "rank.0001/stdout"), "fine");
}

TEST(RankFiles, FailureToCreateIsAUsageErrorThatNamesThePath) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  std::ofstream(file) << "x";
  const fs::path fifo_folder = folder.path() / "fifo" / "rank.0000";
  fs::create_directories(fifo_folder);
  ASSERT_EQ(::mkfifo((fifo_folder / "stdout").c_str(), 0600), 0);
  fs::create_directories(folder.path() / "taken" / "rank.0000" / "stdout");
  fs::create_directories(folder.path() / "link" / "rank.0000");
  fs::create_symlink(file, folder.path() / "link" / "rank.0000" / "stdout");

  const std::pair<fs::path, std::string> cases[] = {
      {file, "Not a directory"},
      {file / "below", "Not a directory"},
      {folder.path() / std::string(300, 'n'), "File name too long"},
      {"/proc/hvd-logs", "No such file or directory"},
      {folder.path() / "fifo", "rank.0000/stdout': No such device or address"},
      {folder.path() / "taken", "rank.0000/stdout': Is a directory"},
      {folder.path() / "link", "rank.0000/stdout': Too many levels of symbolic links"},
  };
  for (const auto& [path, why] : cases) {
    const auto files = RankFiles::create(path, 1);
    ASSERT_FALSE(files) << path;
    EXPECT_EQ(files.error().exit_code, kExitUsage);
    EXPECT_NE(files.error().message.find(why), std::string::npos) << files.error().message;
    EXPECT_NE(files.error().message.find(path.string()), std::string::npos)
        << files.error().message;
  }
  EXPECT_EQ(contents(file), "x");
}

}  // namespace
}  // namespace hvdrun
