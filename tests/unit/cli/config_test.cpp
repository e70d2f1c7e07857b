#include "cli/config.hpp"

#include "temporary_folder.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <unistd.h>

namespace hvdrun::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Returns "name=value source" of each setting.
std::vector<std::string> settings_in(const std::string& text) {
  const auto config = parse_config(text, "f");
  EXPECT_TRUE(config) << config.error().message;
  std::vector<std::string> texts;
  if (config)
    for (const auto& setting : config->settings)
      texts.push_back(std::string(setting.option->name) + "=" + setting.value + " " +
                      setting.source);
  return texts;
}

std::string file_error(const std::string& text) {
  const auto config = parse_config(text, "f");
  EXPECT_FALSE(config) << text;
  if (config) return {};
  EXPECT_EQ(config.error().exit_code, kExitUsage);
  return config.error().message;
}

TEST(ReadConfigSource, TakesAFileThatMayNotBeSeenForNone) {
  const TemporaryFolder folder;
  folder.write("home/config.json", "{\"num-proc\": 2}");
  std::filesystem::permissions(folder.path() / "home", std::filesystem::perms::none);
  ConfigSource looked_for{"user", folder.path() / "home/config.json", false, false};
  ConfigSource named{"--config-file", folder.path() / "home/config.json", true, false};
  // Root may read everything, and so may do neither.
  if (::geteuid() != 0) {
    const auto found = read_config_source(looked_for);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_THAT(found->settings, IsEmpty());
    EXPECT_THAT(found->notes, IsEmpty());
    EXPECT_FALSE(read_config_source(named));
  }
  std::filesystem::permissions(folder.path() / "home", std::filesystem::perms::owner_all);
}

TEST(ParseConfig, ReadsEveryTypeOfValueWithItsLine) {
  EXPECT_THAT(
      settings_in(R"({
    "num-proc": 4,
    "oversubscribe": true, "json": false,
    "verbose": 2,
    "bind-to": "core",
    "grace": 0.5,
    "exit-timeout": "2m",
    "kill-signal": 9,
    "stdin": "all",
    "only-rank": [0, "4-7"],
    "hosts": ["a:1",
              "b"]
  })"),
      ElementsAre("num-proc=4 f:2", "oversubscribe=true f:3", "json=false f:3", "verbose=2 f:4",
                  "bind-to=core f:5", "grace=0.5 f:6", "exit-timeout=2m f:7", "kill-signal=9 f:8",
                  "stdin=all f:9", "only-rank=0,4-7 f:10", "hosts=a:1,b f:11"));
  EXPECT_THAT(settings_in(R"({"verbose": true})"), ElementsAre("verbose=1 f:1"));
  EXPECT_THAT(settings_in(R"({"only-rank": 3, "hosts": "a"})"),
              ElementsAre("only-rank=3 f:1", "hosts=a f:1"));
}

TEST(ParseConfig, AcceptsVariablesAsObjectOrArray) {
  EXPECT_THAT(settings_in("{\"x\": {\"A\": \"1=2\",\n\"B\": null,\n\"C\": \"\"}}"),
              ElementsAre("x=A=1=2 f:1", "x=B f:2", "x=C= f:3"));
  EXPECT_THAT(settings_in(R"({"x": ["A=1", "B"]})"), ElementsAre("x=A=1 f:1", "x=B f:1"));
  EXPECT_EQ(file_error(R"({"x": {"A=B": "1"}})"), "f:1: \"A=B\" cannot be the name of a variable");
  EXPECT_THAT(file_error("{\"x\": {\"A\":\n 1}}"),
              StartsWith("f:2: \"x\" must be an object such as"));
  EXPECT_THAT(file_error(R"({"x": "A=1"})"), StartsWith("f:1: \"x\" must be an object"));
  EXPECT_THAT(file_error(R"({"x": [null]})"), StartsWith("f:1: \"x\" must be an object"));
}

TEST(ParseConfig, AcceptsCommentsAndAnEmptyObject) {
  EXPECT_THAT(settings_in("// all ranks\n{ /* none */\n\"num-proc\": 2 }"),
              ElementsAre("num-proc=2 f:3"));
  EXPECT_THAT(settings_in("{}"), IsEmpty());
}

TEST(ParseConfig, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(file_error("{\n  \"num-proc\": ]\n}"),
              StartsWith("f:2:15: not valid JSON: unexpected ']'"));
  EXPECT_THAT(file_error("{\"num-proc\": 4"), StartsWith("f:1:15: not valid JSON: unexpected end"));
  EXPECT_THAT(file_error("{} x"), StartsWith("f:1:4: not valid JSON: "));
  EXPECT_THAT(file_error("num-proc: 4"),
              AllOf(StartsWith("f:1:3: not valid JSON: "),
                    HasSubstr("; the name of a YAML file of horovodrun must end in .yaml")));
  EXPECT_THAT(file_error("{\"a\n\": 1}"), StartsWith("f:1:4: not valid JSON: "));
  EXPECT_THAT(file_error("{\"label\": \"\xff\"}"), HasSubstr("not valid JSON: "));
  EXPECT_EQ(file_error(" \n"), "f: is empty; it must hold an object, such as {\"num-proc\": 4}");
}

TEST(ParseConfig, RefusesOtherStructures) {
  EXPECT_EQ(file_error("[1]"), "f:1: must be an object, such as {\"num-proc\": 4}");
  EXPECT_EQ(file_error("\n4"), "f:2: must be an object, such as {\"num-proc\": 4}");
  EXPECT_EQ(file_error("{\"x\": {\n\"A\": [1]}}"), "f:2: \"x\" is nested too deep");
  EXPECT_EQ(file_error("{\"grace\": 1,\n\"grace\": 2}"), "f:2: has \"grace\" twice");
  EXPECT_EQ(file_error("{\"x\": {\"A\": null, \"A\": null}}"), "f:1: has \"A\" twice");
}

TEST(ParseConfig, RefusesWrongTypes) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"num-proc": "4"})", "f:1: \"num-proc\" must be a whole number"},
      {R"({"num-proc": 1.5})", "f:1: \"num-proc\" must be a whole number"},
      {R"({"num-proc": null})", "f:1: \"num-proc\" must be a whole number"},
      {R"({"fusion-threshold-mb": "64"})", "f:1: \"fusion-threshold-mb\" must be a number"},
      {R"({"oversubscribe": 1})", "f:1: \"oversubscribe\" must be true or false"},
      {R"({"bind-to": ["core"]})", "f:1: \"bind-to\" must be a string"},
      {R"({"kill-signal": true})", "f:1: \"kill-signal\" must be a string or a number"},
      {R"({"hosts": {"a": 1}})", "f:1: \"hosts\" must be a string, or an array of strings"},
      {"{\"hosts\": [\"a\",\n null]}", "f:2: \"hosts\" must be a string, or an array of strings"},
      {R"({"grace": true})",
       "f:1: \"grace\" must be a number of seconds, or a string such as \"500ms\""},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(file_error(text), message) << text;
}

TEST(ParseConfig, RefusesUnknownKeysAndSuggestsASimilarOne) {
  EXPECT_EQ(file_error("{\n\"num-procs\": 4}"),
            "f:2: unknown key \"num-procs\"; did you mean \"num-proc\"?");
  EXPECT_EQ(file_error(R"({"np": 2})"), "f:1: unknown key \"np\"; did you mean \"num-proc\"?");
  EXPECT_EQ(file_error(R"({"quux": {"a": 1}})"), "f:1: unknown key \"quux\"");
  EXPECT_EQ(file_error(R"({"help": true})"), "f:1: \"help\" cannot be in a config file");
  EXPECT_EQ(file_error(R"({"config-file": "g"})"),
            "f:1: \"config-file\" cannot be in a config file");
}

TEST(ParseConfig, RecognizesHorovodsOptions) {
  const auto config = parse_config("{\n\"cycle-time-ms\": 1}", "f");
  EXPECT_THAT(config->settings, IsEmpty());
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("f:2: \"cycle-time-ms\" has no effect: ")));
  EXPECT_THAT(
      file_error(R"({"host-discovery-script": "t"})"),
      StartsWith("f:1: \"host-discovery-script\" is an option of horovodrun that hvdrun does "
                 "not have: a job keeps its hosts"));
}

// Horovod's own example, with every key of its documentation.
constexpr const char* kHorovodsConfig = R"(---
# A file for horovodrun --config-file.
controller: gloo

params:
  fusion_threshold_mb: 32   # MB
  cycle_time_ms: 10
  cache_capacity: 2048
  hierarchical_allreduce: true
autotune:
    enabled: yes
    log_file: 'horovod # log.txt'
    gaussian_process_noise: 0.9
timeline:
  filename: "a b.json"
stall_check:
  enabled: no
  warning_time_seconds: 120
  shutdown_time_seconds: ~
library_options:
  ccl_bgt_affinity: 1
logging:
)";

std::vector<std::string> names_and_values(const std::vector<Setting>& settings) {
  std::vector<std::string> texts;
  for (const auto& setting : settings)
    texts.push_back(std::string(setting.option->name) + "=" + setting.value + " " + setting.source);
  return texts;
}

TEST(ParseHorovodConfig, ReadsTheYamlOfHorovodrun) {
  for (const std::string name : {"f.yaml", "f.yml"}) {
    const auto config = parse_config(kHorovodsConfig, name);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_THAT(names_and_values(config->settings),
                ElementsAre("fusion-threshold-mb=32 " + name + ":6",
                            "cache-capacity=2048 " + name + ":8", "autotune=true " + name + ":11",
                            "autotune-log-file=horovod # log.txt " + name + ":12",
                            "timeline-filename=a b.json " + name + ":15",
                            "stall-check=false " + name + ":17",
                            "stall-check-warning-time-seconds=120 " + name + ":18"));
    EXPECT_THAT(
        config->notes,
        ElementsAre(StartsWith(name + ":3: \"gloo\" has no effect: "),
                    StartsWith(name + ":7: \"cycle-time-ms\" has no effect: "),
                    StartsWith(name + ":9: \"hierarchical-allreduce\" has no effect: "),
                    StartsWith(name + ":13: \"autotune-gaussian-process-noise\" has no effect: "),
                    name + ":21: \"ccl_bgt_affinity\" has no effect: horovodrun does not know it "
                           "either"));
  }
  const auto windows = parse_config("params:\r\n  cache_capacity: 5\r\n", "f.yaml");
  ASSERT_TRUE(windows) << windows.error().message;
  EXPECT_THAT(names_and_values(windows->settings), ElementsAre("cache-capacity=5 f.yaml:2"));
}

TEST(ParseHorovodConfig, KeysOfHvdrunAreOutsideOfTheSections) {
  const auto config = parse_config("np: 2\nmin_np: 1\nparams:\n  cache-capacity: 5\n", "f.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(names_and_values(config->settings),
              ElementsAre("num-proc=2 f.yaml:1", "min-np=1 f.yaml:2", "cache-capacity=5 f.yaml:4"));
  EXPECT_THAT(config->notes, IsEmpty());
  const auto in_section = parse_config("elastic:\n  min-np: 2\n", "f.yaml");
  ASSERT_FALSE(in_section);
  EXPECT_EQ(in_section.error().message,
            "f.yaml:2: \"min-np\" is not a key of the section \"elastic\": "
            "write \"min-np: 2\" at the beginning of a line");
}

TEST(ParseHorovodConfig, AnUnknownKeyGetsTheNearestOne) {
  const auto config =
      parse_config("params:\n  fusion_treshold_mb: 2\nnum-porc: 2\nxyzzy: 1\n", "f.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(
      config->notes,
      ElementsAre(
          "f.yaml:2: \"fusion_treshold_mb\" has no effect; did you mean \"fusion_threshold_mb\"?",
          "f.yaml:3: \"num-porc\" has no effect; did you mean \"num-proc\"?",
          "f.yaml:4: \"xyzzy\" has no effect: horovodrun does not know it either"));
}

TEST(ParseHorovodConfig, RefusesOtherYaml) {
  for (const std::string text :
       {"params: {cache_capacity: 5}", "params:\n- a", "params: &here\n", "- a", "text", "{}",
        "params:\n  cache_capacity: 5\n   cycle_time_ms: 1", "  cache_capacity: 5",
        "params:\n\tcache_capacity: 5", "timeline:\n  filename: \"a\\n\"",
        "timeline:\n  filename: 'it''s'", "timeline:\n  filename: |\n    a",
        "\"params\":", "timeline:\n  filename: a: b", "!!map"}) {
    const auto config = parse_config(text, "f.yaml");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().exit_code, kExitUsage);
    EXPECT_THAT(config.error().message,
                AllOf(StartsWith("f.yaml:"), HasSubstr(": cannot read "), HasSubstr(" as JSON, ")))
        << text;
  }
}

TEST(ParseHorovodConfig, RefusesInvalidValuesAsInJson) {
  const std::pair<const char*, const char*> cases[] = {
      {"params:\n  cache_capacity: many", "f.yaml:2: \"cache-capacity\" must be a whole number"},
      {"params:\n  cache_capacity: '5'", "f.yaml:2: \"cache-capacity\" must be a whole number"},
      {"stall_check:\n  enabled: 1", "f.yaml:2: \"stall-check\" must be true or false"},
      {"controller: smoke", "f.yaml:1: \"controller\" must be gloo or mpi"},
      {"timeline:\n  filename: a\n  filename: b", "f.yaml:3: has \"timeline-filename\" twice"},
  };
  for (const auto& [text, message] : cases) {
    const auto config = parse_config(text, "f.yaml");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().message, message);
  }
}

TEST(ParseConfig, DeepNestingIsAnError) {
  EXPECT_EQ(file_error("{\"x\": " + std::string(100000, '[')), "f:1: \"x\" is nested too deep");
}

TEST(ConfigSources, AreInOrderOfPrecedence) {
  const auto titles = [](const Environment& environment) {
    std::vector<std::string> texts;
    for (const auto& source : config_sources("/site", environment, {"one", "two"}))
      texts.push_back(source.title + " " + source.file.string());
    return texts;
  };
  EXPECT_THAT(titles({{"HOME", "/home/u"}, {"HVDRUN_CONFIG", "e.json"}}),
              ElementsAre("site /site", "user /home/u/.config/hvdrun/config.json",
                          "HVDRUN_CONFIG e.json", "--config-file one", "--config-file two"));
  EXPECT_THAT(titles({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "/xdg"}})[1],
              "user /xdg/hvdrun/config.json");
  EXPECT_THAT(titles({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "relative"}})[1],
              "user /home/u/.config/hvdrun/config.json");
  EXPECT_THAT(titles({})[1], "user ");
}

}  // namespace
}  // namespace hvdrun::cli
