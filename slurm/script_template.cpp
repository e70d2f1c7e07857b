#include "slurm/script_template.hpp"

#include "common/text.hpp"
#include "slurm/quoting.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

constexpr std::string_view kFence = "---";

constexpr std::pair<VariableType, std::string_view> kTypes[] = {
    {VariableType::word, "word"}, {VariableType::text, "text"}, {VariableType::number, "number"},
    {VariableType::flag, "flag"}, {VariableType::list, "list"},
};

constexpr JobVariable kJobVariables[] = {
    {"job_name", VariableType::word, "--job-name", "the job's name"},
    {"ranks", VariableType::number, "-np", "ranks in all, with --spares and --max-np"},
    {"nodes", VariableType::number, "--nodes", "nodes; unset: SLURM decides"},
    {"ranks_per_node", VariableType::number, "--ranks-per-host",
     "ranks on each node; unset: they differ, or SLURM decides"},
    {"gpus_per_node", VariableType::number, "--gpus-per-node", "GPUs of each node; unset: none"},
    {"cpus_per_rank", VariableType::number, "--cpus-per-rank", "CPUs of each rank"},
    {"time", VariableType::word, "--time", "time limit"},
    {"partition", VariableType::word, "--partition", "partition"},
    {"account", VariableType::word, "--account", "who pays"},
    {"qos", VariableType::word, "--qos", "quality of service"},
    {"mem", VariableType::word, "--mem", "memory of each node"},
    {"output", VariableType::word, "--output", "file for the output"},
    {"error", VariableType::word, "--error", "file for the error output; unset: the output's"},
    {"chdir", VariableType::word, "--chdir", "folder in which the script runs"},
    {"array", VariableType::word, "--array", "indices of a job array"},
    {"dependency", VariableType::word, "--dependency", "jobs to wait for"},
    {"signal", VariableType::word, "--signal", "warning before the time limit"},
    {"mail_user", VariableType::word, "--mail", "who gets mail"},
    {"mail_type", VariableType::word, "--mail", "about what"},
    {"comment", VariableType::word, "", "what the job runs, for hvdrun jobs"},
    {"requeue", VariableType::flag, "--requeue", "SLURM may start the job again"},
    {"sbatch_args", VariableType::list, "--sbatch-arg", "sbatch's other options"},
    {"directives", VariableType::list, "",
     "all of the above that the template does not show itself, as sbatch's options"},
    {"has_modules", VariableType::flag, "--module", "there are modules to load"},
    {"modules", VariableType::list, "--module", "environment modules to load"},
    {"conda", VariableType::word, "--conda", "conda environment"},
    {"venv", VariableType::word, "--venv", "folder of a Python virtual environment"},
    {"container", VariableType::word, "--container", "container image"},
    {"hvdrun", VariableType::list, "", "hvdrun and its options"},
    {"program", VariableType::list, "", "the program and its arguments"},
    {"command", VariableType::list, "", "the whole command: hvdrun, its options, the program"},
    {"summary", VariableType::word, "", "what was asked for: 16 ranks: 4 nodes x 4 GPUs"},
};

bool is_variable_name(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
                  letter == '_';
         });
}

const JobVariable* find_job_variable(std::string_view name) {
  const auto* found = std::find_if(std::begin(kJobVariables), std::end(kJobVariables),
                                   [&](const auto& known) { return known.name == name; });
  return found == std::end(kJobVariables) ? nullptr : found;
}

// Reads one template, and knows the line for its errors.
class TemplateReader {
 public:
  TemplateReader(std::string_view text, std::string name, std::string file) : rest_(text) {
    template_.name = std::move(name);
    template_.file = std::move(file);
  }

  Result<ScriptTemplate> read() {
    HVD_CHECK(read_front_matter());
    template_.body = std::string(rest_);
    template_.body_line = line_ + 1;
    // The script must be bash's, because values are quoted for bash.
    const auto interpreter = template_.body.substr(0, template_.body.find('\n'));
    if (!interpreter.starts_with("#!") || interpreter.find("bash") == std::string::npos)
      return refuse_at(template_.body_line, "the script must be bash's: #!/bin/bash");
    if (const auto at = template_.body.find('\r'); at != std::string::npos)
      return refuse_at(template_.body_line +
                           static_cast<int>(std::count(
                               template_.body.begin(),
                               template_.body.begin() + static_cast<std::ptrdiff_t>(at), '\n')),
                       "the line ends as on Windows (CR LF), which sbatch refuses");
    auto tags = find_tags(template_.body, template_.body_line);
    if (!tags) return refuse_at(tags.error().line, tags.error().message);
    template_.tags = std::move(*tags);
    for (const auto& tag : template_.tags) HVD_CHECK(check_tag(tag));
    if (!template_.shows("command") && !(template_.shows("hvdrun") && template_.shows("program")))
      return refuse_at(template_.body_line,
                       "the script never runs the program: it needs {{#command}}{{.}} "
                       "{{/command}}, or both hvdrun and program");
    return std::move(template_);
  }

 private:
  std::string_view next_line() {
    const auto end = rest_.find('\n');
    const auto line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_;
    return line;
  }

  Result<void> read_front_matter() {
    if (rest_.find('\0') != std::string_view::npos)
      return refuse_at(1, "holds a NUL character, so it is no template");
    if (trim(next_line()) != kFence)
      return refuse("a template begins with --- and what it is for: about: TEXT");
    while (!rest_.empty()) {
      const auto line = trim(next_line());
      if (line == kFence) {
        if (template_.about.empty())
          return refuse("the template does not say what it is for: about: TEXT");
        return {};
      }
      if (!line.empty() && line.front() != '#') HVD_CHECK(read_variable(line));
    }
    return refuse("the front matter has no end: a line ---");
  }

  Result<void> read_variable(std::string_view line) {
    if (line.substr(0, 2) == "--") return read_option(line.substr(2));
    const auto colon = line.find(':');
    const auto name = trim(line.substr(0, colon));
    if (colon == std::string_view::npos || !is_variable_name(name))
      return refuse("is not NAME: TYPE = DEFAULT | HELP: " + quote(line));
    const auto rest = trim(line.substr(colon + 1));
    if (name == "about") {
      if (rest.empty() || !template_.about.empty()) return refuse("about: needs one text");
      template_.about = std::string(rest);
      return {};
    }
    if (find_job_variable(name) != nullptr)
      return refuse(quote(name) + " is a variable that hvdrun fills in itself");
    if (template_.find(name) != nullptr) return refuse(quote(name) + " is declared twice");
    TemplateVariable variable;
    variable.name = std::string(name);
    variable.line = line_;
    const auto bar = rest.find(" | ");
    if (bar == std::string_view::npos)
      return refuse(quote(name) + " has no help: NAME: TYPE = DEFAULT | HELP");
    variable.help = std::string(trim(rest.substr(bar + 3)));
    HVD_CHECK(read_type(variable, trim(rest.substr(0, bar))));
    template_.variables.push_back(std::move(variable));
    return {};
  }

  // Reads an option such as "gpus-per-node=4". The command line later checks that it exists.
  Result<void> read_option(std::string_view text) {
    const auto equals = text.find('=');
    TemplateOption option;
    option.name = std::string(text.substr(0, equals));
    option.value = equals == std::string_view::npos ? "true" : std::string(text.substr(equals + 1));
    option.line = line_;
    template_.options.push_back(std::move(option));
    return {};
  }

  // Reads a type and a default, such as "number = 1".
  Result<void> read_type(TemplateVariable& variable, std::string_view text) {
    const auto equals = text.find('=');
    const auto type_name = trim(text.substr(0, equals));
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const auto& known) { return known.second == type_name; });
    if (type == std::end(kTypes))
      return refuse("the type of " + quote(variable.name) +
                    " must be word, text, number, flag or list, not " + quote(type_name));
    variable.type = type->first;
    if (equals == std::string_view::npos) return {};
    variable.default_value = std::string(trim(text.substr(equals + 1)));
    if (auto checked = check_value(variable.type, *variable.default_value); !checked)
      return refuse("the default of " + quote(variable.name) + " " + checked.error().message);
    return {};
  }

  Result<void> check_tag(const TemplateTag& tag) const {
    if (tag.name == ".") return {};
    const auto* own = template_.find(tag.name);
    const auto* jobs = find_job_variable(tag.name);
    if (own == nullptr && jobs == nullptr) return unknown(tag);
    const auto type = own != nullptr ? own->type : jobs->type;
    if (!tag.opens_section && (type == VariableType::flag || type == VariableType::list))
      return refuse_at(tag.line,
                       fmt::format("{} is a {}: use it as a section, {{{{#{}}}}} … {{{{/{}}}}}",
                                   quote(tag.name), name_of(type), tag.name, tag.name));
    return {};
  }

  Result<void> unknown(const TemplateTag& tag) const {
    std::vector<std::string_view> known;
    for (const auto& variable : template_.variables) known.push_back(variable.name);
    for (const auto& variable : kJobVariables) known.push_back(variable.name);
    const auto nearest = nearest_name(tag.name, known);
    return refuse_at(tag.line,
                     "unknown variable " + quote(tag.name) +
                         (nearest.empty() ? "; the front matter declares none of that name"
                                          : "; did you mean " + quote(nearest) + "?"));
  }

  Error refuse(const std::string& what) const { return refuse_at(line_, what); }

  Error refuse_at(int line, const std::string& what) const {
    return fail(fmt::format("{}:{}: {}", template_.file, line, what), kExitUsage);
  }

  ScriptTemplate template_;
  std::string_view rest_;
  int line_ = 0;  // that was read last
};

}  // namespace

std::string_view name_of(VariableType type) {
  return std::find_if(std::begin(kTypes), std::end(kTypes),
                      [&](const auto& known) { return known.first == type; })
      ->second;
}

std::span<const JobVariable> job_variables() {
  return kJobVariables;
}

const TemplateVariable* ScriptTemplate::find(std::string_view variable) const {
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const auto& known) { return known.name == variable; });
  return found == variables.end() ? nullptr : &*found;
}

bool ScriptTemplate::shows(std::string_view variable) const {
  return std::any_of(tags.begin(), tags.end(),
                     [&](const auto& tag) { return tag.name == variable; });
}

bool ScriptTemplate::asks_for(std::string_view variable) const {
  const auto* job = find_job_variable(variable);
  const bool has_text =
      job == nullptr || (job->type != VariableType::flag && job->type != VariableType::list);
  return std::any_of(tags.begin(), tags.end(), [&](const auto& tag) {
    return tag.name == variable &&
           (has_text ? tag.is_in_directive && !tag.opens_section : tag.opens_section);
  });
}

Result<ScriptTemplate> parse_template(std::string_view text, std::string name, std::string file) {
  return TemplateReader(text, std::move(name), std::move(file)).read();
}

Result<void> check_value(VariableType type, std::string_view value) {
  const auto must_be = [&](std::string_view what) {
    return fail(fmt::format("must be {}, not {}", what, quote(value)), kExitUsage);
  };
  switch (type) {
    case VariableType::number:
      if (value.empty() || value.size() > 18 ||
          value.find_first_not_of("0123456789") != std::string_view::npos)
        return must_be("a whole number");
      return {};
    case VariableType::flag:
      return value == "true" || value == "false" ? Result<void>() : must_be("true or false");
    case VariableType::word:
    case VariableType::list:
      return fits_directive(value) ? Result<void>() : must_be("one line of text");
    case VariableType::text:
      break;
  }
  return value.find('\0') == std::string_view::npos ? Result<void>()
                                                    : must_be("text without NUL characters");
}

std::vector<std::string> split_list(std::string_view value) {
  std::vector<std::string> words;
  while (!value.empty()) {
    const auto comma = value.find(',');
    if (const auto word = trim(value.substr(0, comma)); !word.empty()) words.emplace_back(word);
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
  return words;
}

}  // namespace hvdrun
