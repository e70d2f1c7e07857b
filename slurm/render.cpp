#include "slurm/render.hpp"

#include "common/text.hpp"
#include "slurm/quoting.hpp"
#include "slurm/template_tags.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

namespace hvdrun {

namespace {

// The library's escape function does not see the line that a value is on, which decides how to
// quote it. So render_script has the library put these around each value, and quotes the values
// afterwards.
constexpr char kValueBegins = '\x01';
constexpr char kValueEnds = '\x02';
constexpr char kEscape = '\x03';  // precedes one of the three inside a value
// Precedes the text of an ExpandedText.
constexpr char kExpanded = '\x05';
// Precedes another text that begins with kExpanded or kLiteral.
constexpr char kLiteral = '\x06';

constexpr char kMarks[] = {kValueBegins, kValueEnds, kEscape, kEmptyLine, kExpanded, kLiteral};
static_assert(std::all_of(std::begin(kMarks), std::end(kMarks), [](char mark) {
  return kReservedCharacters.find(mark) != std::string_view::npos;
}));

namespace mustache = kainjow::mustache;

std::string mark(const std::string& value) {
  std::string marked(1, kValueBegins);
  for (const char letter : value) {
    if (letter == kValueBegins || letter == kValueEnds || letter == kEscape) marked += kEscape;
    marked += letter;
  }
  return marked + kValueEnds;
}

std::string literal(const std::string& text) {
  const bool is_mistakable = text.starts_with(kExpanded) || text.starts_with(kLiteral);
  return is_mistakable ? kLiteral + text : text;
}

mustache::data data_of(const TemplateValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return mustache::data(*flag);
  if (const auto* text = std::get_if<std::string>(&value)) return mustache::data(literal(*text));
  if (const auto* expanded = std::get_if<ExpandedText>(&value))
    return mustache::data(kExpanded + expanded->text);
  mustache::data list(mustache::data::type::list);
  for (const auto& item : std::get<std::vector<std::string>>(value))
    list << mustache::data(literal(item));
  return list;
}

// Removes the marks, and quotes the values between them.
class Quoter {
 public:
  explicit Quoter(bool is_array) : is_array_(is_array) {}

  Result<std::string> run(std::string_view text) {
    while (!text.empty()) {
      const char letter = text.front();
      text.remove_prefix(1);
      if (letter == kValueBegins) {
        HVD_CHECK(append_value(take_value(text)));
      } else if (letter == '\n') {
        end_line();
      } else if (letter != kEmptyLine) {
        script_ += letter;
      }
    }
    end_line();
    script_.erase(script_.find_last_not_of('\n') + 1);
    return script_ + "\n";
  }

 private:
  static std::string take_value(std::string_view& text) {
    std::string value;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == kValueEnds) {
        text.remove_prefix(i + 1);
        break;
      }
      if (text[i] == kEscape) ++i;
      value += text[i];
    }
    return value;
  }

  Result<void> append_value(std::string value) {
    const bool is_expanded = value.starts_with(kExpanded);
    if (is_expanded || value.starts_with(kLiteral)) value.erase(0, 1);
    const auto line = std::string_view(script_).substr(line_begins_);
    const auto first = line.find_first_not_of(" \t");
    if (line.substr(0, 7) == "#SBATCH") {
      if (!fits_directive(value))
        return fail("a #SBATCH line cannot hold " + quote(value) +
                        ": it has a line's end or another control character",
                    kExitUsage);
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
  mustache::data data;
  for (const auto& [name, value] : values) data.set(name, data_of(value));
  mustache::mustache body(without_lines_of_tags(script.body));
  if (!body.is_valid())
    return fail(fmt::format("{}: {}", script.file, body.error_message()), kExitUsage);
  body.set_custom_escape(mark);
  auto text = Quoter(values.count("array") != 0).run(body.render(data));
  if (!text) return with_context(fmt::format("template {}", script.name), std::move(text).error());
  return text;
}

}  // namespace hvdrun
