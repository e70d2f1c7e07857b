#include "slurm/script_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRun = "exec {{#command}}{{.}} {{/command}}\n";

Result<ScriptTemplate> parse(const std::string& front, const std::string& body = kRun) {
  return parse_template("---\nabout: a test\n" + front + "---\n#!/bin/bash\n" + body, "t",
                        "t.sbatch");
}

std::string error_of(const std::string& front, const std::string& body = kRun) {
  const auto parsed = parse(front, body);
  return parsed ? "no error" : parsed.error().message;
}

TEST(ParseTemplate, ReadsFrontMatter) {
  const auto script = parse(
      "# a remark\n\nproject: word | who pays\nthreads: number = 4 | for OpenMP\n"
      "name: text = a: b = c | with = and :\nlist: list = | none\n--gpus-per-node=4\n--requeue\n");
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(script->about, "a test");
  ASSERT_EQ(script->variables.size(), 4u);
  EXPECT_EQ(script->variables[0].name, "project");
  EXPECT_EQ(script->variables[0].default_value, std::nullopt);
  EXPECT_EQ(script->variables[0].line, 5);
  EXPECT_EQ(script->variables[1].type, VariableType::number);
  EXPECT_EQ(script->variables[1].default_value, "4");
  EXPECT_EQ(script->variables[2].default_value, "a: b = c");
  EXPECT_EQ(script->variables[2].help, "with = and :");
  EXPECT_EQ(script->variables[3].default_value, "");
  ASSERT_EQ(script->options.size(), 2u);
  EXPECT_EQ(script->options[0].name, "gpus-per-node");
  EXPECT_EQ(script->options[0].value, "4");
  EXPECT_EQ(script->options[1].value, "true");
  EXPECT_EQ(script->body_line, 12);
  EXPECT_EQ(script->body.substr(0, 11), "#!/bin/bash");
}

TEST(ParseTemplate, SaysWhichLineOfTheFrontMatterIsWrong) {
  EXPECT_EQ(error_of("threads number\n"),
            "t.sbatch:3: is not NAME: TYPE = DEFAULT | HELP: \"threads number\"");
  EXPECT_EQ(error_of("threads: number = 4\n"),
            "t.sbatch:3: \"threads\" has no help: NAME: TYPE = DEFAULT | HELP");
  EXPECT_EQ(error_of("threads: integer | x\n"),
            "t.sbatch:3: the type of \"threads\" must be word, text, number, flag or list, not "
            "\"integer\"");
  EXPECT_EQ(error_of("threads: number = four | x\n"),
            "t.sbatch:3: the default of \"threads\" must be a whole number, not \"four\"");
  EXPECT_EQ(error_of("a: word | x\na: word | x\n"), "t.sbatch:4: \"a\" is declared twice");
  EXPECT_EQ(error_of("nodes: number | x\n"),
            "t.sbatch:3: \"nodes\" is a variable that hvdrun fills in itself");
  EXPECT_THAT(error_of("A: word | x\n"), HasSubstr("t.sbatch:3: is not NAME"));
}

TEST(ParseTemplate, NeedsFrontMatterBetweenFences) {
  EXPECT_THAT(parse_template("#!/bin/bash\n", "t", "f").error().message, HasSubstr("f:1: "));
  EXPECT_THAT(parse_template("", "t", "f").error().message, HasSubstr("f:1: "));
  EXPECT_EQ(parse_template("---\nabout: x\n#!/bin/bash\n", "t", "f").error().message,
            "f:3: the front matter has no end: a line ---");
  EXPECT_EQ(parse_template("---\n---\n#!/bin/bash\n", "t", "f").error().message,
            "f:2: the template does not say what it is for: about: TEXT");
  EXPECT_EQ(parse_template("---\nabout: x\n---\nexec x\n", "t", "f").error().message,
            "f:4: the script must be bash's: #!/bin/bash");
}

TEST(ParseTemplate, FindsTags) {
  const auto script = parse("threads: number = 1 | x\n",
                            "{{! a remark: #not a tag }}{{#modules}}{{ . }}{{/modules}}\n"
                            "{{^conda}}{{threads}}{{/conda}}\n" +
                                kRun);
  ASSERT_TRUE(script) << script.error().message;
  std::vector<std::string> names;
  for (const auto& tag : script->tags)
    names.push_back(std::to_string(tag.line) + (tag.opens_section ? "#" : ":") + tag.name);
  EXPECT_THAT(names, ElementsAre("6#modules", "6:.", "7#conda", "7:threads", "8#command", "8:."));
}

TEST(ParseTemplate, SaysWhichTagIsWrong) {
  EXPECT_EQ(error_of("threads: number = 1 | x\n", "{{thread}}\n" + kRun),
            "t.sbatch:6: unknown variable \"thread\"; did you mean \"threads\"?");
  EXPECT_EQ(error_of("", "{{modulse}}\n" + kRun),
            "t.sbatch:5: unknown variable \"modulse\"; did you mean \"modules\"?");
  EXPECT_EQ(error_of("", "{{quux}}\n" + kRun),
            "t.sbatch:5: unknown variable \"quux\"; the front matter declares none of that name");
  EXPECT_EQ(error_of("", "{{modules}}\n" + kRun),
            "t.sbatch:5: \"modules\" is a list: use it as a section, {{#modules}} … {{/modules}}");
  EXPECT_EQ(error_of("", "{{{time}}}\n" + kRun),
            "t.sbatch:5: {{{name}}} and {{&name}} leave a value unquoted, which no template may");
  EXPECT_THAT(error_of("", "{{&time}}\n" + kRun), HasSubstr("unquoted"));
  EXPECT_THAT(error_of("", "{{> part}}\n" + kRun), HasSubstr("partials"));
  EXPECT_THAT(error_of("", "{{=<% %>=}}\n" + kRun), HasSubstr("delimiters"));
  EXPECT_THAT(error_of("", "{{}}\n" + kRun), HasSubstr("has no name"));
  EXPECT_EQ(error_of("", "\n{{time\n" + kRun), "t.sbatch:6: the tag {{ has no end: }}");
  EXPECT_EQ(error_of("", "{{time"), "t.sbatch:5: the tag {{ has no end: }}");
  EXPECT_EQ(error_of("", "{{#conda}}\n" + kRun),
            "t.sbatch:5: the section \"conda\" has no end: {{/conda}}");
  EXPECT_EQ(error_of("", "{{#conda}}{{#venv}}{{/conda}}{{/venv}}\n" + kRun),
            "t.sbatch:5: {{/conda}} closes a section that is not open; open is \"venv\"");
  EXPECT_EQ(error_of("", "{{.}}\n" + kRun),
            "t.sbatch:5: {{.}} is valid only in a section of a list");
}

TEST(ParseTemplate, RefusesQuotesAroundValues) {
  EXPECT_EQ(error_of("", "cd \"{{chdir}}\"\n" + kRun),
            "t.sbatch:5: the value of \"chdir\" is inside quotes; hvdrun quotes it itself, so "
            "take them away");
  EXPECT_THAT(error_of("", "cd 'a {{chdir}}'\n" + kRun), HasSubstr("inside quotes"));
  EXPECT_EQ(error_of("", "echo \"$x\" {{chdir}} 'b' \\\"{{chdir}}\n" + kRun), "no error");
  EXPECT_EQ(error_of("", "# it's {{chdir}}\n" + kRun), "no error");
}

// Quotes may span lines. A # starts a comment only at the start of a word.
TEST(ParseTemplate, KnowsWhereQuotesAndCommentsEnd) {
  EXPECT_THAT(error_of("", "echo \"first\n {{chdir}}\"\n" + kRun), HasSubstr("inside quotes"));
  EXPECT_EQ(error_of("", "echo \"first\n\" {{chdir}}\n" + kRun), "no error");
  EXPECT_EQ(error_of("", "echo a # it's {{chdir}}\n" + kRun), "no error");
  EXPECT_THAT(error_of("", "echo a#'b {{chdir}}'\n" + kRun), HasSubstr("inside quotes"));
  EXPECT_THAT(error_of("", "#SBATCH -J \"{{job_name}}\"\n" + kRun), HasSubstr("inside quotes"));
  EXPECT_EQ(error_of("", "#SBATCH -J \"x\" -D {{chdir}}\n" + kRun), "no error");
}

TEST(ParseTemplate, RefusesValuesInHereDocuments) {
  EXPECT_EQ(error_of("", "cat <<EOF\n{{chdir}}\nEOF\n" + kRun),
            "t.sbatch:6: the value of \"chdir\" is in a here-document, where it cannot be "
            "quoted: put it into a variable before");
  EXPECT_THAT(error_of("", "cat <<-'END' >x\n{{chdir}}\n\tEND\n" + kRun),
              HasSubstr("here-document"));
  EXPECT_EQ(error_of("", "cat <<EOF\nit's\nEOF\ncd {{chdir}}\n" + kRun), "no error");
  EXPECT_EQ(error_of("", "x=$((1 << 2))\ncd {{chdir}}\ny=<<<z\ncd {{chdir}}\n" + kRun), "no error");
}

TEST(ParseTemplate, RefusesDirectivesAfterACommand) {
  EXPECT_EQ(error_of("", "# a comment\nmodule purge\n#SBATCH -J {{job_name}}\n" + kRun),
            "t.sbatch:7: a #SBATCH line after the first command (line 6), where sbatch does not "
            "read it");
}

TEST(ParseTemplate, RefusesAnotherShellAndCrLf) {
  EXPECT_THAT(parse_template("---\nabout: x\n---\n#!/bin/sh\n" + kRun, "t", "f").error().message,
              HasSubstr("f:4: the script must be bash's"));
  EXPECT_EQ(error_of("", "a\nb\r\n" + kRun),
            "t.sbatch:6: the line ends as on Windows (CR LF), which sbatch refuses");
  EXPECT_EQ(error_of("", "a\n{{! \x01 }}echo '\x1b[1m'\n" + kRun), "no error");
}

TEST(ParseTemplate, RefusesATemplateThatDoesNotRunTheProgram) {
  EXPECT_THAT(error_of("", "echo {{time}}\n"), HasSubstr("never runs the program"));
  EXPECT_THAT(error_of("", "{{#hvdrun}}{{.}} {{/hvdrun}}\n"), HasSubstr("never runs the program"));
  EXPECT_EQ(error_of("", "{{#hvdrun}}{{.}} {{/hvdrun}}{{#program}}{{.}} {{/program}}\n"),
            "no error");
}

TEST(CheckValue, ChecksByType) {
  EXPECT_TRUE(check_value(VariableType::number, "007"));
  EXPECT_FALSE(check_value(VariableType::number, "-1"));
  EXPECT_FALSE(check_value(VariableType::number, ""));
  EXPECT_FALSE(check_value(VariableType::number, "9999999999999999999999"));
  EXPECT_FALSE(check_value(VariableType::flag, "yes"));
  EXPECT_TRUE(check_value(VariableType::flag, "false"));
  EXPECT_FALSE(check_value(VariableType::word, "a\nb"));
  EXPECT_TRUE(check_value(VariableType::text, "a\nb"));
  EXPECT_FALSE(check_value(VariableType::text, std::string_view("a\0b", 3)));
}

TEST(SplitList, TrimsWordsAndDropsEmptyOnes) {
  EXPECT_THAT(split_list("a, b c ,,d,"), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(split_list(""), ElementsAre());
}

}  // namespace
}  // namespace hvdrun
