#include "slurm/render.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::HasSubstr;

const std::string kCommandLine = "exec {{#command}}{{.}} {{/command}}\n";

ScriptTemplate script_of(const std::string& front, const std::string& body) {
  return parse_template("---\nabout: a test\n" + front + "---\n#!/bin/bash\n" + body, "t",
                        "t.sbatch")
      .value();
}

std::string rendered(const std::string& body, const TemplateValues& values) {
  const auto text = render_script(script_of("", body + kCommandLine), values);
  if (!text) return text.error().message;
  const auto end = text->find("exec");
  return text->substr(12, end == std::string::npos ? end : end - 12);
}

TEST(RenderScript, QuotesByTheKindOfLine) {
  const TemplateValues values{{"chdir", std::string("a b\\c")}};
  EXPECT_EQ(rendered("cd {{chdir}}\n", values), "cd 'a b\\c'\n");
  EXPECT_EQ(rendered("#SBATCH -D {{chdir}}\n", values), "#SBATCH -D \"a b\\\\c\"\n");
  EXPECT_EQ(rendered("# in {{chdir}}\n", values), "# in a b\\c\n");
  EXPECT_EQ(rendered("{{chdir}} # {{chdir}}\n", values), "'a b\\c' # 'a b\\c'\n");
}

TEST(RenderScript, EscapesOrRefusesControlCharacters) {
  const TemplateValues values{{"chdir", std::string("a\n#SBATCH --x")}};
  EXPECT_EQ(rendered("cd {{chdir}}\n", values), "cd $'a\\n#SBATCH --x'\n");
  EXPECT_EQ(rendered("# {{chdir}}\n", values), "# a #SBATCH --x\n");
  EXPECT_EQ(rendered("#SBATCH -D {{chdir}}\n", values),
            "template t: a #SBATCH line cannot hold \"a\\n#SBATCH --x\": it has a line's end or "
            "another control character");
}

TEST(RenderScript, ControlCharactersOfATemplateAreText) {
  // The fuzzer has found a template such as this one that was rendered without end.
  EXPECT_EQ(rendered("{{! \x01 }}echo \x01\x05$\x02\n", {}), "echo \x01\x05$\x02\n");
}

TEST(RenderScript, ControlCharactersOfValuesAreQuoted) {
  const TemplateValues values{{"chdir", std::string("a\x01"
                                                    "b\x02\x03"
                                                    "c")}};
  EXPECT_EQ(rendered("cd {{chdir}}\n", values), "cd $'a\\001b\\002\\003c'\n");
}

TEST(RenderScript, RendersListsFlagsAndUnsetValues) {
  const TemplateValues values{
      {"modules", std::vector<std::string>{"gcc/8", "a b"}}, {"requeue", true}, {"conda", false}};
  EXPECT_EQ(rendered("load {{#modules}}{{.}} {{/modules}}\n", values), "load gcc/8 'a b'\n");
  EXPECT_EQ(rendered("{{#requeue}}\nyes\n{{/requeue}}\n{{^requeue}}\nno\n{{/requeue}}\n", values),
            "yes\n");
  EXPECT_EQ(rendered("{{#conda}}\nactivate {{conda}}\n{{/conda}}\n", values), "");
  EXPECT_EQ(rendered("{{#venv}}{{venv}}{{/venv}}x{{time}}y\n", values), "xy\n");
}

TEST(RenderScript, ShowsTheItemOfTheInnermostSection) {
  const TemplateValues values{{"modules", std::vector<std::string>{"a", "b"}},
                              {"sbatch_args", std::vector<std::string>{"1", "2"}},
                              {"requeue", true},
                              {"conda", std::string("env")},
                              {"directives", std::vector<std::string>{}}};
  EXPECT_EQ(
      rendered("{{#modules}}{{#sbatch_args}}{{.}} {{/sbatch_args}}{{.}};{{/modules}}\n", values),
      "1 2 a;1 2 b;\n");
  EXPECT_EQ(rendered("{{#modules}}{{#requeue}}{{.}}{{conda}} {{/requeue}}{{/modules}}\n", values),
            "aenv benv\n");
  EXPECT_EQ(rendered("{{#conda}}{{.}}{{/conda}}{{^conda}}none{{/conda}}\n", values), "env\n");
  EXPECT_EQ(rendered("{{^directives}}none{{/directives}}{{^nodes}}, unset{{/nodes}}\n", values),
            "none, unset\n");
  EXPECT_EQ(rendered("{{#modules}}{{#modules}}{{.}}{{/modules}}{{/modules}}\n", values), "abab\n");
}

TEST(RenderScript, KeepsEmptyLinesAndDropsLinesOfTags) {
  const TemplateValues values{{"requeue", true}};
  EXPECT_EQ(rendered("a\n\n  {{#requeue}}  \n\nb\n{{/requeue}}\n\n{{! c }}\nd\n", values),
            "a\n\n\nb\n\nd\n");
  EXPECT_EQ(rendered("a\n{{#venv}}\nb\n{{/venv}}\n\nc\n", values), "a\n\nc\n");
}

TEST(RenderScript, ValueThatLooksLikeATagIsText) {
  EXPECT_EQ(rendered("cd {{chdir}}\n", {{"chdir", std::string("{{time}}")}}), "cd '{{time}}'\n");
}

TEST(RenderScript, EndsWithOneNewlineAndRemovesTrailingBlanks) {
  const auto text = render_script(script_of("", kCommandLine + "\n\n"),
                                  {{"command", std::vector<std::string>{"a", "b"}}});
  EXPECT_EQ(*text, "#!/bin/bash\nexec a b\n");
}

TEST(OwnValues, UsesSettingsAndDefaults) {
  const auto script = script_of(
      "a: word = x | first\nb: flag = false | second\nc: list = p, q | third\nd: word = | fourth\n",
      kCommandLine);
  const auto values = own_values(script, {{"a", "y"}, {"b", "true"}, {"a", "z"}});
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(std::get<std::string>(values->at("a")), "z");
  EXPECT_TRUE(std::get<bool>(values->at("b")));
  EXPECT_EQ(std::get<std::vector<std::string>>(values->at("c")).size(), 2u);
  EXPECT_FALSE(std::get<bool>(values->at("d")));
}

TEST(OwnValues, RefusesUnknownInvalidAndMissingSettings) {
  const auto script =
      script_of("threads: number = 1 | x\nproject: word | who pays\n", kCommandLine);
  EXPECT_EQ(own_values(script, {{"thread", "2"}}).error().message,
            "--set thread: t.sbatch:1: the template t has no variable of that name; did you mean "
            "\"threads\"?");
  EXPECT_EQ(own_values(script, {{"quux", "2"}}).error().message,
            "--set quux: t.sbatch:1: the template t has no variable of that name; hvdrun templates "
            "show t lists them");
  EXPECT_EQ(own_values(script, {{"time", "2"}}).error().message,
            "--set time: hvdrun fills time in itself, from --time");
  EXPECT_EQ(own_values(script, {{"threads", "two"}}).error().message,
            "t.sbatch:3: --set threads: must be a whole number, not \"two\"");
  EXPECT_EQ(own_values(script, {}).error().message,
            "t.sbatch:4: the template t needs --set project=…: who pays");
}

}  // namespace
}  // namespace hvdrun
