#include "cli/program.hpp"

#include "temporary_folder.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

using testing::EndsWith;

class FindProgram : public testing::Test {
 protected:
  Result<std::filesystem::path> find(const std::string& name) const {
    return find_program(name, environment_, folder_.path());
  }
  void expect_error(const std::string& name, int exit_code, const std::string& message) const {
    const auto found = find(name);
    ASSERT_FALSE(found) << found->string();
    EXPECT_EQ(found.error().exit_code, exit_code);
    EXPECT_EQ(found.error().message, message);
  }

  TemporaryFolder folder_;
  Environment environment_ = {
      {"PATH", (folder_.path() / "a").string() + ":" + (folder_.path() / "b").string()}};
};

TEST_F(FindProgram, FindsTheFirstExecutableInPath) {
  folder_.write("a/prog", "not executable");
  std::filesystem::create_directories(folder_.path() / "a/other");
  const auto prog = folder_.write_program("b/prog");
  const auto other = folder_.write_program("b/other");
  EXPECT_EQ(find("prog").value(), prog);
  EXPECT_EQ(find("other").value(), other);
}

TEST_F(FindProgram, EmptyFolderInPathIsTheWorkingDirectory) {
  environment_["PATH"] = "/nowhere:";
  const auto here = folder_.write_program("prog");
  EXPECT_TRUE(std::filesystem::equivalent(find("prog").value(), here));
}

TEST_F(FindProgram, SearchesTheSystemsFoldersWithoutPath) {
  environment_.erase("PATH");
  EXPECT_TRUE(find("sh"));
}

TEST_F(FindProgram, NameWithASlashIsRelativeToTheWorkingDirectory) {
  const auto prog = folder_.write_program("sub/prog");
  EXPECT_EQ(find("sub/prog").value(), prog);
  EXPECT_EQ(find(prog.string()).value(), prog);
}

TEST_F(FindProgram, ReportsAMissingProgram) {
  expect_error("nosuch", kExitNotFound, "there is no program \"nosuch\" in PATH");
  expect_error("./nosuch", kExitNotFound, "\"./nosuch\" does not exist");
  expect_error("", kExitNotFound, "the name of the program is empty");
}

TEST_F(FindProgram, ReportsWhyAFileIsNotExecutable) {
  folder_.write("train.py", "print()");
  folder_.write("tool", "x");
  std::filesystem::create_directories(folder_.path() / "sub");
  expect_error("./sub", kExitNotExecutable, "\"./sub\" is a directory");
  expect_error("./tool", kExitNotExecutable, "\"./tool\" is not executable: chmod +x ./tool");
  expect_error("./train.py", kExitNotExecutable,
               "\"./train.py\" is not executable: chmod +x ./train.py, or hvdrun … python3 "
               "./train.py");
}

TEST(HintForVariables, TakesAllOfThem) {
  const auto message = [](const std::string& name, const std::string& after) {
    return find_program(name, {}, "/", {"hvdrun -np 2", after}).error().message;
  };
  EXPECT_THAT(message("A=1", " FOO=2 python3 t.py"),
              EndsWith("; to set variables: hvdrun -np 2 -x A=1 -x FOO=2 python3 t.py"));
  EXPECT_THAT(message("A=1", " python3 t.py B=2"),
              EndsWith("; to set a variable: hvdrun -np 2 -x A=1 python3 t.py B=2"));
  EXPECT_THAT(message("CUDA_VISIBLE_DEVICES=0", " A=1 ./t"),
              EndsWith("; to choose GPUs: CUDA_VISIBLE_DEVICES=0 hvdrun -np 2 -x A=1 ./t"));
}

TEST(HintForWords, NamesTheOptionThatWasMeant) {
  const auto message = [](const std::string& name, const std::string& after) {
    return find_program(name, {}, "/", {"hvdrun", after}).error().message;
  };
  EXPECT_THAT(message("2", " ./t"), EndsWith("; to start 2 ranks: hvdrun -np 2 ./t"));
  EXPECT_THAT(message("np", " 2 ./t"), EndsWith("; did you mean hvdrun -np 2 ./t?"));
  EXPECT_THAT(message("min-np", " 2 ./t"), EndsWith("; did you mean hvdrun --min-np 2 ./t?"));
  EXPECT_THAT(message("=", " 1 ./t"), EndsWith("no blanks around its \"=\": -x NAME=VALUE"));
  EXPECT_THAT(message("nosuch", ""), EndsWith("in PATH"));
}

TEST_F(FindProgram, NamesANonExecutableFileInPath) {
  const auto file = folder_.write("a/prog", "x");
  expect_error("prog", kExitNotExecutable,
               "\"" + file.string() + "\" is not executable: chmod +x " + file.string());
}

TEST_F(FindProgram, SuggestsAFileOfThatNameInTheWorkingDirectory) {
  folder_.write_program("train.py");
  folder_.write("eval.py", "print()");
  folder_.write_program("train");
  folder_.write("tool", "x");
  expect_error("train.py", kExitNotFound,
               "there is no program \"train.py\" in PATH; there is ./train.py here: "
               "hvdrun … ./train.py, or hvdrun … python3 train.py");
  expect_error("eval.py", kExitNotFound,
               "there is no program \"eval.py\" in PATH; there is ./eval.py here: "
               "hvdrun … python3 eval.py");
  expect_error("train", kExitNotFound,
               "there is no program \"train\" in PATH; there is ./train here: hvdrun … ./train");
  expect_error("tool", kExitNotFound,
               "there is no program \"tool\" in PATH; there is ./tool here: "
               "chmod +x it, then hvdrun … ./tool");
}

}  // namespace
}  // namespace hvdrun::cli
