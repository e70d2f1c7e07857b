// Tests which files of a command line are looked for, and what is said if they are not there.
#include "cli/named_files.hpp"

#include "temporary_folder.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

class NamedFiles : public testing::Test {
 protected:
  NamedFiles() {
    for (const auto* name : {"train.py", "sub/eval.py", "run.sh"}) folder_.write(name, "");
    for (const auto* name : {"python3", "bash", "nice", "nsys", "uv", "env", "prog", "time"})
      folder_.write_program(std::string("bin/") + name);
  }

  // Returns the message on the missing file; "" if none is missing.
  std::string missing(const std::vector<std::string>& command, const std::string& wrap = {}) const {
    JobSpec spec;
    spec.wrap.command = wrap;
    const auto found = find_missing_file(command, spec, environment_, folder_.path());
    return found ? found->error.message : std::string();
  }

  TemporaryFolder folder_;
  Environment environment_ = {{"PATH", (folder_.path() / "bin").string()}};
};

TEST_F(NamedFiles, NamesAMissingScriptAndTheOneThatMayBeMeant) {
  EXPECT_EQ(missing({"python3", "trian.py"}),
            "\"trian.py\" does not exist; did you mean train.py?");
  EXPECT_EQ(missing({"python3.11", "-uB", "-I", "sub/evla.py", "x"}),
            "\"sub/evla.py\" does not exist; did you mean sub/eval.py?");
  EXPECT_EQ(missing({"bash", "-eu", "nosuch.sh"}), "\"nosuch.sh\" does not exist");
  EXPECT_EQ(missing({"env", "A=1", "nice", "-n", "5", "python3", "nosuch.py"}),
            "\"nosuch.py\" does not exist");
}

TEST_F(NamedFiles, NamesAMissingProgramAfterAnotherOne) {
  EXPECT_EQ(missing({"nice", "nosuch"}), "there is no program \"nosuch\" in PATH");
  EXPECT_EQ(missing({"prog"}, "nosuch -x"), "there is no program \"nosuch\" in PATH");
}

TEST_F(NamedFiles, FindsWhatIsThere) {
  EXPECT_EQ(missing({"python3", "train.py", "nosuch.py"}), "");
  EXPECT_EQ(missing({"bash", "run.sh"}), "");
  EXPECT_EQ(missing({"nice", "prog"}), "");
  EXPECT_EQ(missing({"prog", "nosuch.py"}, "nsys profile -o out"), "");
  EXPECT_EQ(missing({"python3", folder_.path()}), "") << "a folder with __main__.py";
}

TEST_F(NamedFiles, LooksOnlyForWhatIsCertain) {
  const std::vector<std::vector<std::string>> commands{
      {"python3", "-c", "pass"},
      {"python3", "-uc", "pass"},
      {"python3", "-m", "nosuch"},
      {"python3", "-mtimeit", "-n1", "1"},
      {"python3", "-X", "dev", "nosuch.py"},
      {"python3", "--check-hash-based-pycs", "never", "nosuch.py"},
      {"python3", "-"},
      {"python3"},
      {"python_run", "nosuch.py"},
      {"bash", "-c", "cd sub && python3 nosuch.py"},
      {"bash", "-s", "a"},
      {"bash", "-euo", "pipefail", "nosuch.sh"},
      {"bash", ""},
      {"bash", "prog"},  // bash searches PATH
      {"bash", "$HOME/nosuch.sh"},
      {"uv", "run", "nosuch.py"},
      {"env", "-C", "sub", "python3", "eval.py"},
      {"env", "PATH=/opt/bin", "nosuch"},
      {"env", "-", "A=1", "nosuch"},
      {"env", "a.b=2", "nosuch"},
      {"nice", "-5", "nosuch"},
      {"time", "-vo", "nosuch", "prog"},
      {"strace", "-fo", "nosuch", "prog"},
      {"timeout", "-vk", "5", "10", "prog"},
      {"numactl", "-aN", "0", "prog"},
      {"nsys", "profile", "-fo", "nosuch", "prog"},
      {"gdb", "-cd", "sub", "prog"},
      {"apptainer", "exec", "image.sif", "python3", "x.py"}};
  for (const auto& command : commands)
    EXPECT_EQ(missing(command), "") << testing::PrintToString(command);
  for (const auto* wrap : {"cd sub && nosuch", "~/nosuch", "no*such", "`nosuch`", "$TOOL", "a; b"})
    EXPECT_EQ(missing({"prog"}, wrap), "") << wrap;
  EXPECT_EQ(missing({"python3", "nosuch.py"}, "env"), "") << "the file may be in a container";
}

TEST_F(NamedFiles, ALinkThatLeadsNowhereIsNotItsOwnHint) {
  std::filesystem::create_symlink("nowhere", folder_.path() / "link.py");
  EXPECT_EQ(missing({"python3", "link.py"}), "\"link.py\" does not exist");
}

}  // namespace
}  // namespace hvdrun::cli
