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
    for (const auto* name : {"python3", "bash", "nice", "nsys", "uv", "env", "prog"})
      folder_.write_program(std::string("bin/") + name);
  }

  // Returns the message on the missing file; "" if none is missing.
  std::string missing(const std::vector<std::string>& command, const std::string& wrap = {}) const {
    const auto found = find_missing_file(command, wrap, environment_, folder_.path());
    return found ? found->error.message : std::string();
  }

  TemporaryFolder folder_;
  Environment environment_ = {{"PATH", (folder_.path() / "bin").string()}};
};

TEST_F(NamedFiles, NamesAMissingScriptAndTheOneThatMayBeMeant) {
  EXPECT_EQ(missing({"python3", "trian.py"}),
            "\"trian.py\" does not exist; did you mean train.py?");
  EXPECT_EQ(missing({"python3", "-u", "-X", "dev", "sub/evla.py", "x"}),
            "\"sub/evla.py\" does not exist; did you mean sub/eval.py?");
  EXPECT_EQ(missing({"bash", "-eu", "nosuch.sh"}), "\"nosuch.sh\" does not exist");
  EXPECT_EQ(missing({"env", "A=1", "nice", "-n", "5", "python3", "nosuch.py"}),
            "\"nosuch.py\" does not exist");
}

TEST_F(NamedFiles, NamesAMissingProgramBehindAnotherOne) {
  EXPECT_EQ(missing({"nice", "nosuch"}), "there is no program \"nosuch\" in PATH");
  EXPECT_EQ(missing({"prog"}, "nosuch -x"), "there is no program \"nosuch\" in PATH");
  EXPECT_EQ(missing({"python3", "nosuch.py"}, "nsys profile -o out"),
            "\"nosuch.py\" does not exist");
}

TEST_F(NamedFiles, FindsWhatIsThere) {
  EXPECT_EQ(missing({"python3", "train.py", "nosuch.py"}), "");
  EXPECT_EQ(missing({"bash", "run.sh"}), "");
  EXPECT_EQ(missing({"nice", "prog"}), "");
  EXPECT_EQ(missing({"prog", "nosuch.py"}, "nsys profile -o out"), "");
  EXPECT_EQ(missing({"python3", folder_.path()}), "") << "a folder with __main__.py";
}

TEST_F(NamedFiles, DoesNotLookForWhatMayBeElsewhere) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"python3", "-c", "pass"},
                                             {"python3", "-m", "nosuch"},
                                             {"python3", "-"},
                                             {"python3"},
                                             {"bash", "-c", "cd sub && python3 nosuch.py"},
                                             {"uv", "run", "nosuch.py"},
                                             {"env", "-C", "sub", "python3", "eval.py"},
                                             {"env", "PATH=/opt/bin", "nosuch"},
                                             {"bash", "$HOME/nosuch.sh"},
                                             {"apptainer", "exec", "image.sif", "python3", "x.py"}})
    EXPECT_EQ(missing(command), "") << testing::PrintToString(command);
  EXPECT_EQ(missing({"prog"}, "cd sub && nosuch"), "");
}

}  // namespace
}  // namespace hvdrun::cli
