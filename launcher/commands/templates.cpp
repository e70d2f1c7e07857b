#include "commands/templates.hpp"

#include "base/severity.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"
#include "slurm/script_template.hpp"
#include "slurm/template_folders.hpp"

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::string_view kHelp =
    R"(usage: hvdrun templates
       hvdrun templates show NAME

Lists the templates that hvdrun sbatch makes batch scripts from, or shows one
with its variables. Looks into --template-path FOLDER (which may be repeated),
the folders of HVD_TEMPLATE_PATH, ~/.config/hvdrun/templates, and hvdrun's own,
in that order. If two have the same name, the first one applies.
)";

struct TemplatesOptions {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> operands;
  bool help = false;
};

Result<TemplatesOptions> parse_templates_options(const std::vector<std::string>& args) {
  constexpr std::string_view kPathOption = "--template-path";
  TemplatesOptions options;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string_view word = args[i];
    if (word == kPathOption && i + 1 < args.size()) {
      options.folders.emplace_back(args[++i]);
    } else if (word == kPathOption) {
      return fail("--template-path needs a value (FOLDER)", kExitUsage);
    } else if (word.starts_with("--template-path=")) {
      options.folders.emplace_back(word.substr(kPathOption.size() + 1));
    } else {
      others.emplace_back(word);
    }
  }
  HVD_TRY(options.operands, take_flags("hvdrun templates", others, {{"--help", &options.help}}));
  return options;
}

void append_table(std::string& out, const std::vector<TableRow>& rows) {
  for (const auto& line : table_lines(rows)) out += line + "\n";
}

std::string list_text(const std::vector<FoundTemplate>& templates) {
  std::vector<TableRow> rows{{"TEMPLATE", "FOR", "FILE"}};
  for (const auto& found : templates) {
    const auto script = read_template(found);
    rows.push_back({quote_if_needed(found.name),
                    script ? script->about : "cannot be used: " + script.error().message,
                    found.file.string()});
  }
  std::string out;
  append_table(out, rows);
  return out;
}

std::string default_text(const TemplateVariable& variable) {
  if (!variable.default_value) return "must be given";
  return variable.default_value->empty() ? "unset" : *variable.default_value;
}

std::string show_text(const ScriptTemplate& script) {
  std::string out = fmt::format("{}: {}\n{}\n", script.name, script.about, script.file);
  if (!script.options.empty()) {
    out += "\nOptions of hvdrun sbatch that it sets unless you do:\n";
    for (const auto& option : script.options)
      out += fmt::format("  --{}{}\n", option.name,
                         option.value == "true" ? "" : "=" + quote_if_needed(option.value));
  }
  if (!script.variables.empty()) {
    out += "\nVariables of its own (hvdrun sbatch --set NAME=VALUE):\n";
    std::vector<TableRow> rows{{"  NAME", "TYPE", "DEFAULT", ""}};
    for (const auto& variable : script.variables)
      rows.push_back({"  " + variable.name, std::string(name_of(variable.type)),
                      default_text(variable), variable.help});
    append_table(out, rows);
  }
  out += "\nVariables that hvdrun sbatch fills in:\n";
  std::vector<TableRow> rows{{"  NAME", "TYPE", "FROM", ""}};
  for (const auto& variable : job_variables())
    if (script.shows(variable.name))
      rows.push_back({fmt::format("  {}", variable.name), std::string(name_of(variable.type)),
                      variable.option.empty() ? "-" : std::string(variable.option),
                      std::string(variable.help)});
  append_table(out, rows);
  return out + "\n" + script.body;
}

}  // namespace

Result<int> run_templates(const std::vector<std::string>& args, const Environment& environment) {
  HVD_TRY(const auto options, parse_templates_options(args));
  if (options.help) return print_text(kHelp);
  const auto folders = template_folders(options.folders, environment, own_template_folder());
  const auto& operands = options.operands;
  if (operands.empty() ||
      (operands.size() == 1 && (operands[0] == "list" || operands[0] == "ls"))) {
    const auto templates = find_templates(folders);
    if (templates.empty())
      print_own_line(error_text("there is no template; hvdrun's own folder is gone"));
    return print_text(list_text(templates));
  }
  if (operands.size() != 2 || operands[0] != "show")
    return fail("hvdrun templates takes no operand, or show NAME; not " + quote(operands[0]),
                kExitUsage);
  HVD_TRY(const auto script, load_template(operands[1], folders));
  return print_text(show_text(script));
}

}  // namespace hvdrun
