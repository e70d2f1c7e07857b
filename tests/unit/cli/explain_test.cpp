#include "cli/explain.hpp"

#include "command_line_fixture.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Explain : public test::CommandLineTest {
 protected:
  std::string text(const std::vector<std::string>& args) const {
    auto invocation = parse(args);
    EXPECT_TRUE(invocation) << invocation.error().message;
    if (!invocation) return {};
    EXPECT_EQ(invocation->action, Invocation::Action::explain);
    return invocation->text;
  }
};

TEST_F(Explain, ShowsValuesSourcesAndOverriddenValues) {
  const auto site = system_paths_.site_config_file.string();
  folder_.write("site/config.json", "{\n\"num-proc\": 2,\n\"grace\": \"9s\"}");
  const auto job = folder_.write("job.json", "{\"num-proc\": 4}").string();
  const auto out = text({"--explain", "--config-file", job, "-np", "8"});
  EXPECT_THAT(out, ContainsRegex("num-proc +8 +command line\n"
                                 " +overrides +4 +" +
                                 job +
                                 ":1\n"
                                 " +overrides +2 +" +
                                 site + ":2\n"));
  EXPECT_THAT(out, ContainsRegex("grace +9s +" + site + ":3\n"));
  EXPECT_THAT(out, ContainsRegex("kill-signal +TERM +default\n"));
}

TEST_F(Explain, AlignsItsColumns) {
  const auto out = text({"--explain", "-np", "8"});
  const auto column = [&](const std::string& name) {
    const auto line = out.find("\n  " + name + " ");
    EXPECT_NE(line, std::string::npos) << name;
    const auto end = out.find('\n', line + 1);
    return out.rfind("  ", end) - line;
  };
  EXPECT_EQ(column("num-proc"), column("network-interface"));
  EXPECT_EQ(column("num-proc"), column("stall-check-shutdown-time-seconds"));
}

TEST_F(Explain, ListsTheSourcesInOrder) {
  const auto job = folder_.write("job.json", "{}").string();
  const auto out = text({"--explain", "--config-file", job});
  EXPECT_THAT(
      out, ContainsRegex("1\\. default .*\n.*2\\. site .*/site/config.json \\(does not exist\\)\n"
                         ".*3\\. user .*\\(does not exist\\)\n.*4\\. HVDRUN_CONFIG +not set\n"
                         ".*5\\. --config-file +.*job.json\n.*6\\. command line\n"));
}

TEST_F(Explain, OverridesVariablesByName) {
  folder_.write("site/config.json", R"({"x": {"A": "1", "B": null}})");
  const auto out = text({"--explain", "-x", "A=two words"});
  EXPECT_THAT(out, ContainsRegex("x A +\"two words\" +command line\n +overrides +1 +"));
  EXPECT_THAT(out, ContainsRegex("x B +\\(passed on\\) +"));
}

TEST_F(Explain, FoldsManyHosts) {
  std::string hosts;
  for (int i = 1; i <= 64; ++i) hosts += "n" + std::to_string(i) + ":8,";
  EXPECT_THAT(text({"--explain", "-H", hosts + "login:1"}),
              ContainsRegex("hosts +n\\[1-64\\]:8,login:1 +command line\n"));
  EXPECT_THAT(text({"--explain", "-H", "n1:2,n2:2"}), HasSubstr(" n1:2,n2:2 "));
}

TEST_F(Explain, NeedsNoProgram) {
  EXPECT_THAT(text({"--explain"}), HasSubstr("program: none given\n"));
  EXPECT_THAT(text({"--explain", "prog", "a b"}),
              HasSubstr("program: prog \"a b\"\n         " + program_.string() + "\n"));
  EXPECT_THAT(text({"--explain", "nosuch"}), HasSubstr("there is no program \"nosuch\" in PATH"));
}

TEST_F(Explain, InvalidSettingIsStillAnError) {
  EXPECT_EQ(error({"--explain", "-np", "0"}).message,
            "-np needs a whole number of 1 or more, not \"0\"");
}

}  // namespace
}  // namespace hvdrun
