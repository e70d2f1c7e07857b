#include "slurm/render.hpp"

#include "common/text.hpp"
#include "slurm/quoting.hpp"
#include "slurm/template_tags.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

// Writes a script line by line, and quotes each value for the line that it is on.
class ScriptWriter {
 public:
  explicit ScriptWriter(bool is_array) : is_array_(is_array) {}

  void append_text(std::string_view text) {
    for (const char letter : text) letter == '\n' ? end_line() : script_.push_back(letter);
  }

  // `is_expanded`: the script expands $NAME in it.
  Result<void> append_value(const std::string& value, bool is_expanded = false) {
    const auto line = std::string_view(script_).substr(line_begins_);
    const auto first = line.find_first_not_of(" \t");
    if (line.starts_with("#SBATCH")) {
      if (!fits_directive(value))
        return usage_error("a #SBATCH line cannot hold " + quote(value) +
                           ": it has a line's end or another control character");
      script_ += quote_for_directive(value);
    } else if (first != std::string_view::npos && line[first] == '#') {
      script_ += quote_for_comment(value);
    } else if (is_expanded) {
      script_ += quote_for_shell_expanding(value);
    } else {
      script_ += is_array_ ? quote_for_shell_with_index(value) : quote_for_shell(value);
    }
    return {};
  }

  // Returns the script. It ends with one line end.
  std::string finish() {
    end_line();
    script_.erase(script_.find_last_not_of('\n') + 1);
    return script_ + "\n";
  }

 private:
  // A list leaves a blank after its last item.
  void end_line() {
    const auto last = script_.find_last_not_of(" \t");
    script_.erase(std::max(line_begins_, last == std::string::npos ? 0 : last + 1));
    script_ += '\n';
    line_begins_ = script_.size();
  }

  bool is_array_;
  std::string script_;
  std::size_t line_begins_ = 0;
};

// Shows a body, whose tags find_tags() has checked.
class Renderer {
 public:
  Renderer(const TemplateValues& values, ScriptWriter& writer) : values_(values), writer_(writer) {}

  // Shows a text, in which {{.}} is `item`; null outside a section.
  Result<void> show(std::string_view text, const TemplateValue* item) {
    while (const auto piece = next_piece(text)) {
      writer_.append_text(piece->before);
      if (piece->kind == '#' || piece->kind == '^') {
        const auto inside = take_section(text);
        HVD_CHECK(show_section(*piece, inside, item));
      } else if (piece->kind == ' ') {
        HVD_CHECK(show_value(piece->name == "." ? item : find(piece->name)));
      }
    }
    writer_.append_text(text);
    return {};
  }

 private:
  const TemplateValue* find(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }

  static bool is_shown(const TemplateValue* value) {
    if (value == nullptr) return false;
    if (const auto* flag = std::get_if<bool>(value)) return *flag;
    const auto* list = std::get_if<std::vector<std::string>>(value);
    return list == nullptr || !list->empty();
  }

  Result<void> show_section(const TagPiece& tag, std::string_view inside,
                            const TemplateValue* item) {
    const auto* value = find(tag.name);
    if (is_shown(value) == (tag.kind == '^')) return {};
    if (tag.kind == '^' || std::holds_alternative<bool>(*value)) return show(inside, item);
    const auto* list = std::get_if<std::vector<std::string>>(value);
    if (list == nullptr) return show(inside, value);
    for (const auto& each : *list) {
      const TemplateValue one = each;
      HVD_CHECK(show(inside, &one));
    }
    return {};
  }

  Result<void> show_value(const TemplateValue* value) {
    if (value == nullptr) return {};
    if (const auto* text = std::get_if<std::string>(value)) return writer_.append_value(*text);
    if (const auto* expanded = std::get_if<ExpandedText>(value))
      return writer_.append_value(expanded->text, true);
    return {};
  }

  const TemplateValues& values_;
  ScriptWriter& writer_;
};

Error at_declaration(const ScriptTemplate& script, const TemplateVariable& variable,
                     const std::string& what) {
  return {fmt::format("{}:{}: {}", script.file, variable.line, what), kExitUsage};
}

Error unknown_variable(const ScriptTemplate& script, const VariableSetting& setting) {
  for (const auto& job : job_variables())
    if (job.name == setting.name && !job.option.empty())
      return {fmt::format("--set {}: hvdrun fills {} in itself, from {}", setting.name,
                          setting.name, job.option),
              kExitUsage};
  std::vector<std::string_view> known;
  for (const auto& variable : script.variables) known.push_back(variable.name);
  const auto nearest = nearest_name(setting.name, known);
  return {fmt::format("--set {}: {}:1: the template {} has no variable of that name{}",
                      quote_if_needed(setting.name), script.file, script.name,
                      nearest.empty()
                          ? fmt::format("; hvdrun templates show {} lists them", script.name)
                          : "; did you mean " + quote(nearest) + "?"),
          kExitUsage};
}

TemplateValue value_of(const TemplateVariable& variable, const std::string& text) {
  if (variable.type == VariableType::flag) return text == "true";
  if (variable.type == VariableType::list) return split_list(text);
  if (text.empty()) return false;
  return text;
}

}  // namespace

Result<TemplateValues> own_values(const ScriptTemplate& script,
                                  const std::vector<VariableSetting>& settings) {
  TemplateValues values;
  for (const auto& setting : settings) {
    const auto* variable = script.find(setting.name);
    if (variable == nullptr) return unknown_variable(script, setting);
    if (auto checked = check_value(variable->type, setting.value); !checked)
      return at_declaration(script, *variable,
                            fmt::format("--set {}: {}", setting.name, checked.error().message));
    values[setting.name] = value_of(*variable, setting.value);
  }
  for (const auto& variable : script.variables) {
    if (values.count(variable.name) != 0) continue;
    if (!variable.default_value)
      return at_declaration(script, variable,
                            fmt::format("the template {} needs --set {}=…: {}", script.name,
                                        variable.name, variable.help));
    values[variable.name] = value_of(variable, *variable.default_value);
  }
  return values;
}

Result<std::string> render_script(const ScriptTemplate& script, const TemplateValues& values) {
  ScriptWriter writer(values.contains("array"));
  if (auto shown = Renderer(values, writer).show(without_lines_of_tags(script.body), nullptr);
      !shown)
    return with_context(fmt::format("template {}", script.name), std::move(shown).error());
  return writer.finish();
}

}  // namespace hvdrun
