#include "channels/sent_agent.hpp"

#include "base/subprocess.hpp"
#include "base/version.hpp"
#include "common/sha256.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

AgentFile agent_file(std::string content) {
  AgentFile file;
  file.content = std::move(content);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.content.data());
  file.sha256 = common::to_hex(common::sha256({bytes, file.content.size()}));
  return file;
}

// Has a home folder of its own, in which the commands run that a remote host would run.
class SentAgentTest : public testing::Test {
 protected:
  SentAgentTest() {
    std::string pattern = testing::TempDir() + "home.XXXXXX";
    home_ = ::mkdtemp(pattern.data());
    utsname names{};
    ::uname(&names);
    agent_ = {"0.1.0-abc", "", names.machine};
    folder_ = home_ / ".cache/hvdrun/0.1.0-abc";
    path_ = home_ / "bin/hvdrun";
  }
  ~SentAgentTest() override { fs::remove_all(home_); }
  SentAgentTest(const SentAgentTest&) = delete;
  SentAgentTest& operator=(const SentAgentTest&) = delete;

  ProgramEnd run(std::vector<std::string> command, std::string input = {}) const {
    ProgramRequest request;
    request.command = std::move(command);
    request.environment = {{"PATH=/usr/bin:/bin", "HOME=" + home_.string()}};
    request.input = std::move(input);
    auto end = run_program(std::move(request));
    EXPECT_TRUE(end) << end.error().message;
    return *end;
  }
  ProgramEnd receive(const AgentFile& file) const {
    return run(receive_command(agent_, file), file.content);
  }
  ProgramEnd start() const { return run(start_command(agent_, path_, {"--word", "two words"})); }
  fs::path received() const { return folder_ / ("agent." + file_.sha256); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename());
    return found;
  }

  fs::path home_;
  fs::path folder_;
  fs::path path_;
  SentAgent agent_;
  const AgentFile file_ = agent_file("#!/bin/sh\nprintf '%s,' sent \"$@\"\n");
};

TEST_F(SentAgentTest, IsReceivedAndStarted) {
  EXPECT_EQ(start().code, kExitNotFound);
  const auto got = receive(file_);
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "");
  struct stat status {};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(names(), std::vector<std::string>{received().filename()});
  const auto end = start();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out, "sent,--word,two words,");
}

TEST_F(SentAgentTest, TakesPrecedenceOverTheInstalledOne) {
  fs::create_directories(path_.parent_path());
  std::ofstream(path_) << "#!/bin/sh\nprintf '%s,' installed \"$@\"\n";
  fs::permissions(path_, fs::perms::owner_all);
  EXPECT_EQ(start().out, "installed,--word,two words,");
  receive(file_);
  EXPECT_EQ(start().out, "sent,--word,two words,");
}

TEST_F(SentAgentTest, IsKeptInTheFolderThatTheLauncherNames) {
  agent_.cache = home_ / "other";
  EXPECT_EQ(receive(file_).code, 0);
  EXPECT_TRUE(fs::exists(home_ / "other/hvdrun/0.1.0-abc" / received().filename()));
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(start().out, "sent,--word,two words,");
}

TEST_F(SentAgentTest, IsNotReadAgainIfItExists) {
  receive(file_);
  EXPECT_EQ(run(receive_command(agent_, file_), "").code, 0);
}

TEST_F(SentAgentTest, IsRefusedIfItArrivedIncomplete) {
  for (const auto& text : {file_.content.substr(0, 9), "X" + file_.content.substr(1)}) {
    const auto end = run(receive_command(agent_, file_), text);
    EXPECT_EQ(end.code, 1);
    EXPECT_EQ(end.err,
              "hvdrun cannot be sent to " + folder_.string() + " there: it did not arrive whole\n");
    EXPECT_EQ(names(), std::vector<std::string>{});
  }
}

TEST_F(SentAgentTest, IsSentAgainIfTheFileWasChanged) {
  receive(file_);
  std::ofstream(received(), std::ios::app) << "printf changed\n";
  EXPECT_EQ(start().code, kExitNotFound);
  EXPECT_EQ(receive(file_).code, 0);
  EXPECT_EQ(start().out, "sent,--word,two words,");
}

TEST_F(SentAgentTest, IsNotStartedFromAFolderThatOthersCanWrite) {
  receive(file_);
  for (const auto& folder : {folder_, folder_.parent_path(), home_ / ".cache", home_}) {
    for (const auto who : {fs::perms::group_write, fs::perms::others_write}) {
      fs::permissions(folder, who, fs::perm_options::add);
      EXPECT_EQ(start().code, kExitNotFound) << folder;
      const auto end = receive(file_);
      if (folder == folder_) {
        EXPECT_EQ(end.code, 0) << "receive_command resets its mode";
      } else {
        EXPECT_EQ(end.code, 1);
        EXPECT_EQ(end.err.find("hvdrun cannot be sent to " + folder_.string() +
                               " there: others can change " + folder.string() + "; chmod go-w it"),
                  0u)
            << end.err;
      }
      fs::permissions(folder, who, fs::perm_options::remove);
    }
  }
  EXPECT_EQ(start().code, 0);
}

TEST_F(SentAgentTest, IsNotStartedIfAnotherUserOwnsAPartOfThePath) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  receive(file_);
  for (const auto& owned : {received(), folder_, folder_.parent_path(), home_ / ".cache"}) {
    ASSERT_EQ(::chown(owned.c_str(), 65534, 65534), 0);
    EXPECT_EQ(start().code, kExitNotFound) << owned;
    ASSERT_EQ(::chown(owned.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(start().code, 0);
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_NE(receive(file_).err.find("the folder belongs to another user; remove it"),
            std::string::npos);
}

TEST_F(SentAgentTest, IsNotSentToAnotherProcessorArchitecture) {
  const auto here = std::exchange(agent_.machine, "sparc");
  const auto end = receive(file_);
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(end.err, "it has another kind of processor (" + here +
                         ") than the launcher (sparc); install hvdrun " + kVersion +
                         " there and name it with --agent-path\n");
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(SentAgentTest, NamesTheErrorOfTheFileSystem) {
  std::ofstream(home_ / ".cache") << "a file\n";
  EXPECT_EQ(
      receive(file_).err,
      "hvdrun cannot be sent to " + folder_.string() +
          " there: Not a directory; set XDG_CACHE_HOME to another folder, or install hvdrun " +
          kVersion + " there\n");
}

// Creates another version's folder, whose files were last changed `days` days ago.
void put_version(const fs::path& folder, int days) {
  fs::create_directories(folder);
  const auto then = fs::file_time_type::clock::now() - std::chrono::hours(24 * days + 1);
  for (const auto* name : {"agent.123", "used", "new.7.host"}) {
    std::ofstream(folder / name) << "x";
    fs::last_write_time(folder / name, then);
  }
  fs::last_write_time(folder, then);
}

TEST_F(SentAgentTest, RemovesVersionsThatWereNotUsedFor90Days) {
  const auto versions = home_ / ".cache/hvdrun";
  put_version(versions / "0.0.9-old", 90);
  put_version(versions / "0.0.9-recent", 89);
  put_version(versions / "0.0.9-started", 90);
  std::ofstream(versions / "0.0.9-started/used") << "\n";
  put_version(versions / "0.0.9-kept", 90);
  std::ofstream(versions / "0.0.9-kept/of-the-user") << "x";
  fs::last_write_time(versions / "0.0.9-kept/of-the-user", fs::file_time_type{});
  put_version(versions / "python", 90);
  put_version(home_ / "elsewhere", 90);
  fs::create_directory_symlink(home_ / "elsewhere", versions / "0.0.9-link");
  EXPECT_EQ(receive(file_).code, 0);
  EXPECT_FALSE(fs::exists(versions / "0.0.9-old"));
  EXPECT_TRUE(fs::exists(versions / "0.0.9-kept/of-the-user"));
  for (const auto* name : {"0.0.9-recent", "0.0.9-started", "python", "0.0.9-link"})
    EXPECT_TRUE(fs::exists(versions / name / "agent.123")) << name;
  EXPECT_EQ(start().code, 0);
}

TEST_F(SentAgentTest, RecordsItsLastStart) {
  receive(file_);
  EXPECT_FALSE(fs::exists(folder_ / "used"));
  start();
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24 * 100);
  fs::last_write_time(folder_ / "used", long_ago);
  EXPECT_EQ(start().out, "sent,--word,two words,");
  EXPECT_GT(fs::last_write_time(folder_ / "used"), long_ago + std::chrono::hours(24));
}

TEST_F(SentAgentTest, IsStartedEvenIfItsLastStartCannotBeRecorded) {
  receive(file_);
  fs::create_directory(folder_ / "used");
  const auto end = start();
  EXPECT_EQ(end.out, "sent,--word,two words,");
  EXPECT_EQ(end.err, "");
}

// The login shell, which may be csh or fish, parses the commands before /bin/sh does.
TEST_F(SentAgentTest, CommandsHaveNoCharactersThatAnyShellChanges) {
  for (const auto& words : {start_command(agent_, path_, {}), receive_command(agent_, file_)})
    EXPECT_EQ(words[2].find_first_of("'\\!\n"), std::string::npos) << words[2];
}

TEST(SentAgent, IsTheRunningProgram) {
  const auto agent = sent_agent({{"XDG_CACHE_HOME", "/scratch/ann"}});
  ASSERT_TRUE(agent);
  EXPECT_EQ(agent->cache, "/scratch/ann");
  EXPECT_EQ(agent->key.find(std::string(kVersion) + "-"), 0u);
  EXPECT_EQ(sent_agent({{"XDG_CACHE_HOME", "not/absolute"}})->cache, "");
  const auto file = read_agent_file();
  ASSERT_TRUE(file);
  EXPECT_EQ(file->content.size(), fs::file_size("/proc/self/exe"));
}

TEST(FindLack, DistinguishesAMissingProgramFromAFailure) {
  const auto lack = [](int code, std::string_view errors) {
    const auto found = find_lack(code, errors, "/opt/hvdrun");
    return found ? found->what + (found->is_other_version ? " (version)" : "") : "";
  };
  const std::string version = kVersion;
  EXPECT_EQ(lack(127, ""), "hvdrun not found at /opt/hvdrun");
  EXPECT_EQ(lack(126, "sh: 1: exec: /opt/hvdrun: Exec format error"),
            "/opt/hvdrun cannot be executed there");
  EXPECT_EQ(lack(2, "motd\nhvdrun: hvdrun here is version 0.0.9, the launcher's is " + version +
                        ": install the same on both\n"),
            "hvdrun there is version 0.0.9, the launcher's is " + version + " (version)");
  EXPECT_EQ(lack(2, "hvdrun: error: unknown option --internal-agent"),
            "hvdrun there is another version than the launcher's, " + version + " (version)");
  EXPECT_EQ(lack(127, "hvdrun: error while loading shared libraries: libfmt.so.9: cannot open"),
            "hvdrun at /opt/hvdrun lacks a library");
  EXPECT_EQ(lack(125, "hvdrun: cannot read /proc/cpuinfo"), "");
  EXPECT_EQ(lack(0, ""), "");
}

}  // namespace
}  // namespace hvdrun
