#include "slurm/render.hpp"

#include "common/text.hpp"
#include "slurm/script_template.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

namespace hvdrun {

namespace {

constexpr std::string_view kDirective = "#SBATCH";

// Stand before and behind each value while the library renders: how a value is to be quoted depends
// on how its line begins, which the library does not tell to its escape function.
constexpr char kValueBegins = '\x01';
constexpr char kValueEnds = '\x02';
constexpr char kEscape = '\x03';  // stands before one of the three inside a value
// Stands before the text of an ExpandedText, and of another that begins so.
constexpr char kExpanded = '\x05';
constexpr char kLiteral = '\x06';

// All of them: a template that held one would pass for a value.
constexpr std::string_view kMarks = "\x01\x02\x03\x04\x05\x06";
static_assert(kMarks.find(kEmptyLine) != std::string_view::npos);

// The word that ends the here-document which a line begins; empty: it begins none.
std::string here_document_of(std::string_view line) {
  const auto at = line.find("<<");
  if (at == std::string_view::npos || line.substr(0, at).find("((") != std::string_view::npos)
    return {};
  auto rest = line.substr(at + 2);
  if (rest.starts_with('<')) return {};
  if (rest.starts_with('-')) rest.remove_prefix(1);
  rest = trim(rest);
  std::string word;
  for (const char letter : rest.substr(0, rest.find_first_of(" \t;|&>)")))
    if (letter != '"' && letter != '\'' && letter != '\\') word += letter;
  return word;
}

}  // namespace

void ScriptScan::walk(std::string_view text) {
  for (const char letter : text) letter == '\n' ? end_line() : take(letter);
}

bool ScriptScan::is_in_directive() const {
  return std::string_view(line_).starts_with(kDirective) && here_end_.empty();
}

void ScriptScan::take(char letter) {
  const bool begins_word = line_.empty() || line_.back() == ' ' || line_.back() == '\t';
  line_ += letter;
  if (!here_end_.empty()) return;
  if (letter == '#' && quote_ == 0 && begins_word && !is_escaped_) is_comment_ = true;
  if (is_comment_ && !std::string_view(kDirective).starts_with(line_) && !is_in_directive()) return;
  if (is_escaped_) {
    is_escaped_ = false;
  } else if (letter == '\\' && quote_ != '\'') {
    is_escaped_ = true;
  } else if (quote_ == 0 && (letter == '\'' || letter == '"')) {
    quote_ = letter;
  } else if (quote_ == letter) {
    quote_ = 0;
  }
}

void ScriptScan::end_line() {
  if (!here_end_.empty()) {
    if (trim(line_) == here_end_) here_end_.clear();
  } else {
    const bool is_command =
        !trim(line_).empty() && line_.front() != '#' && trim(line_).front() != '#';
    if (is_command) {
      if (first_command_ < 0) first_command_ = lines_;
      if (quote_ == 0) here_end_ = here_document_of(line_);
    }
    // A directive's quotes end with its line; a command's may go on.
    if (is_in_directive()) quote_ = 0;
  }
  line_.clear();
  ++lines_;
  is_comment_ = false;
  is_escaped_ = false;
}

namespace {

using Tags = std::vector<TemplateTag>;

struct OpenSection {
  std::string name;
  int line = 0;
};

// Walks over the body, tag by tag.
class TagFinder {
 public:
  TagFinder(std::string_view body, int first_line) : body_(body), first_line_(first_line) {}

  common::Result<Tags, TagFault> run() {
    while (true) {
      const auto begin = body_.find("{{", at_);
      walk_text(body_.substr(at_, begin == std::string_view::npos ? begin : begin - at_));
      if (fault_) return std::move(*fault_);
      if (begin == std::string_view::npos) break;
      at_ = begin + 2;
      const auto end = body_.find("}}", at_);
      if (end == std::string_view::npos) return fault("the tag {{ has no end: }}");
      take(body_.substr(at_, end - at_));
      if (fault_) return std::move(*fault_);
      at_ = end + 2;
    }
    if (!open_.empty())
      return TagFault{open_.back().line, "the section " + quote(open_.back().name) +
                                             " has no end: {{/" + open_.back().name + "}}"};
    return std::move(tags_);
  }

 private:
  // sbatch no longer looks for its options behind the first command.
  void walk_text(std::string_view text) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      const auto line = text.substr(0, end);
      if (const auto at = line.find_first_of(kMarks); at != std::string_view::npos)
        return refuse(fmt::format("the control character 0x{:02x} cannot stand in a template",
                                  int{line[at]}));
      scan_.walk(line);
      if (scan_.is_in_directive() && scan_.first_command() >= 0)
        return refuse("a #SBATCH line behind the first command (line " +
                      std::to_string(first_line_ + scan_.first_command()) +
                      "), where sbatch does not read it");
      if (end == std::string_view::npos) return;
      scan_.walk("\n");
      text.remove_prefix(end + 1);
    }
  }

  int line() const { return first_line_ + scan_.lines(); }

  void take(std::string_view inside) {
    if (inside.find('\n') != std::string_view::npos) return refuse("the tag {{ has no end: }}");
    const auto first = inside.find_first_not_of(" \t");
    const char kind = first == std::string_view::npos ? ' ' : inside[first];
    if (kind == '!') return;
    if (kind == '{' || kind == '&')
      return refuse("{{{name}}} and {{&name}} leave a value unquoted, which no template may");
    if (kind == '>') return refuse("partials ({{> name}}) are not taken");
    if (kind == '=') return refuse("other delimiters ({{=<% %>=}}) are not taken");
    const bool is_marked = kind == '#' || kind == '^' || kind == '/';
    auto name = inside.substr(std::min(first, inside.size()));
    if (is_marked) name.remove_prefix(1);
    name = trim(name);
    if (name.empty()) return refuse("the tag {{}} has no name");
    if (kind == '/') return close(name);
    if (is_marked) {
      if (name == ".") return refuse("a section needs a variable's name");
      open_.push_back({std::string(name), line()});
    } else {
      show(name);
    }
    tags_.push_back({std::string(name), line(), is_marked, scan_.is_in_directive()});
    if (!is_marked) scan_.pass_value();
  }

  void show(std::string_view name) {
    if (name == "." && open_.empty()) return refuse("{{.}} stands for an item of a section's list");
    if (scan_.is_in_quotes())
      return refuse("the value of " + quote(name) +
                    " stands inside quotes; hvdrun quotes it itself, so take them away");
    if (scan_.is_in_here_document())
      refuse(
          "the value of " + quote(name) +
          " stands in a here-document, where it cannot be quoted: put it into a variable before");
  }

  void close(std::string_view name) {
    if (open_.empty() || open_.back().name != name)
      return refuse("{{/" + std::string(name) + "}} closes a section that is not open" +
                    (open_.empty() ? "" : "; open is " + quote(open_.back().name)));
    open_.pop_back();
  }

  void refuse(std::string message) { fault_ = TagFault{line(), std::move(message)}; }

  TagFault fault(std::string message) const { return TagFault{line(), std::move(message)}; }

  std::string_view body_;
  std::size_t at_ = 0;
  int first_line_;
  ScriptScan scan_;
  std::vector<OpenSection> open_;
  Tags tags_;
  std::optional<TagFault> fault_;
};

// One tag and no more, which shows no value.
bool is_line_of_tag(std::string_view line) {
  return line.size() > 4 && line.starts_with("{{") && line.find("}}") == line.size() - 2 &&
         std::string_view("#^/!").find(trim(line.substr(2)).front()) != std::string_view::npos;
}

}  // namespace

std::string without_lines_of_tags(std::string_view body) {
  std::string text;
  while (!body.empty()) {
    const auto end = body.find('\n');
    const auto line = body.substr(0, end == std::string_view::npos ? end : end + 1);
    body.remove_prefix(line.size());
    const auto content = trim(line.substr(0, line.find('\n')));
    if (content.empty()) text += kEmptyLine;
    text += is_line_of_tag(content) ? content : line;
  }
  return text;
}

common::Result<Tags, TagFault> find_tags(std::string_view body, int first_line) {
  return TagFinder(body, first_line).run();
}

namespace {

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

// Takes the marks away, and quotes what they hold.
class Quoter {
 public:
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
    } else {
      script_ += is_expanded ? quote_for_shell_expanding(value) : quote_for_shell(value);
    }
    return {};
  }

  // A list leaves a blank behind its last item.
  void end_line() {
    const auto last = script_.find_last_not_of(" \t");
    script_.erase(std::max(line_begins_, last == std::string::npos ? 0 : last + 1));
    script_ += '\n';
    line_begins_ = script_.size();
  }

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
  auto text = Quoter().run(body.render(data));
  if (!text) return with_context(fmt::format("template {}", script.name), std::move(text).error());
  return text;
}

namespace {

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

bool holds_only(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || others.find(letter) != std::string_view::npos;
  });
}

// $'…' of bash: C's escapes.
std::string quote_with_escapes(std::string_view value) {
  std::string quoted = "$'";
  for (const char letter : value) {
    if (letter == '\n') {
      quoted += "\\n";
    } else if (letter == '\t') {
      quoted += "\\t";
    } else if (is_control(letter)) {
      // Three octal digits at most, so that a digit behind it is not part of it.
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(letter));
    } else {
      if (letter == '\'' || letter == '\\') quoted += '\\';
      quoted += letter;
    }
  }
  return quoted + "'";
}

// The name in $NAME or ${NAME} at the beginning of the text, and its length there. Empty: there is
// none.
std::pair<std::string_view, std::size_t> variable_at(std::string_view text) {
  const bool braces = text.substr(0, 2) == "${";
  const std::size_t begin = braces ? 2 : 1;
  const auto rest = text.substr(std::min(begin, text.size()));
  std::size_t size = 0;
  while (size < rest.size() && holds_only(rest.substr(size, 1), "_")) ++size;
  const auto name = rest.substr(0, size);
  if (name.empty() || (name.front() >= '0' && name.front() <= '9')) return {};
  if (!braces) return {name, begin + size};
  if (rest.substr(size, 1) != "}") return {};
  return {name, begin + size + 1};
}

}  // namespace

bool is_expandable(std::string_view value) {
  for (auto at = value.find('$'); at != std::string_view::npos; at = value.find('$')) {
    value.remove_prefix(at);
    const auto [name, length] = variable_at(value);
    if (name.empty()) return false;
    value.remove_prefix(length);
  }
  return true;
}

std::string quote_for_shell_expanding(std::string_view value) {
  std::string quoted;
  while (!value.empty()) {
    const auto literal = value.substr(0, value.find('$'));
    if (!literal.empty()) quoted += quote_for_shell(literal);
    value.remove_prefix(literal.size());
    if (value.empty()) break;
    const auto [name, length] = variable_at(value);
    quoted += name.empty() ? "'$'" : fmt::format("\"${{{}:?}}\"", name);
    value.remove_prefix(name.empty() ? 1 : length);
  }
  return quoted;
}

std::string quote_for_shell(std::string_view value) {
  if (!value.empty() && holds_only(value, "_@%+=:,./-")) return std::string(value);
  if (std::any_of(value.begin(), value.end(), is_control)) return quote_with_escapes(value);
  std::string quoted = "'";
  for (const char letter : value) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string quote_for_directive(std::string_view argument) {
  if (argument.substr(0, 2) == "--") {
    const auto equals = argument.find('=');
    if (equals != std::string_view::npos && holds_only(argument.substr(0, equals), "-")) {
      const auto value = argument.substr(equals + 1);
      return std::string(argument.substr(0, equals + 1)) +
             (value.empty() ? "" : quote_for_directive(value));
    }
  }
  if (!argument.empty() && holds_only(argument, "_@%+=:,./-*[]{}()!?;&|<>^~$")) {
    return std::string(argument);
  }
  std::string quoted = "\"";
  for (const char letter : argument) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

bool fits_directive(std::string_view value) {
  return std::none_of(value.begin(), value.end(), is_control);
}

std::string quote_for_comment(std::string_view value) {
  std::string text(value);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace hvdrun
