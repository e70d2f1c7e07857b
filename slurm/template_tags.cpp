#include "slurm/template_tags.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

constexpr std::string_view kDirective = "#SBATCH";

// Returns the word that ends the here-document that a line begins; empty if it begins none.
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

// The parts of what is inside a tag: its mark, ' ' if it has none, and the name.
struct TagParts {
  char kind = ' ';
  std::string_view name;
};

TagParts parts_of(std::string_view inside) {
  inside = trim(inside);
  if (inside.empty() || std::string_view("#^/!{&>=").find(inside.front()) == std::string_view::npos)
    return {' ', inside};
  return {inside.front(), trim(inside.substr(1))};
}

using Tags = std::vector<TemplateTag>;

struct OpenSection {
  std::string name;
  int line = 0;
};

// Reads the body tag by tag.
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
  // sbatch no longer looks for its options after the first command.
  void walk_text(std::string_view text) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      const auto line = text.substr(0, end);
      scan_.walk(line);
      if (scan_.is_in_directive() && scan_.first_command() >= 0)
        return refuse("a #SBATCH line after the first command (line " +
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
    const auto [kind, name] = parts_of(inside);
    if (kind == '!') return;
    if (kind == '{' || kind == '&')
      return refuse("{{{name}}} and {{&name}} leave a value unquoted, which no template may");
    if (kind == '>') return refuse("partials ({{> name}}) are not taken");
    if (kind == '=') return refuse("other delimiters ({{=<% %>=}}) are not taken");
    const bool is_marked = kind == '#' || kind == '^' || kind == '/';
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
    if (name == "." && open_.empty()) return refuse("{{.}} is valid only in a section of a list");
    if (scan_.is_in_quotes())
      return refuse("the value of " + quote(name) +
                    " is inside quotes; hvdrun quotes it itself, so take them away");
    if (scan_.is_in_here_document())
      refuse("the value of " + quote(name) +
             " is in a here-document, where it cannot be quoted: put it into a variable before");
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

// Returns whether the line is one tag that shows no value, and nothing else.
bool is_line_of_tag(std::string_view line) {
  return line.size() > 4 && line.starts_with("{{") && line.find("}}") == line.size() - 2 &&
         std::string_view("#^/!").find(trim(line.substr(2)).front()) != std::string_view::npos;
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
    // A directive's quotes end with its line; a command's may continue on the next one.
    if (is_in_directive()) quote_ = 0;
  }
  line_.clear();
  ++lines_;
  is_comment_ = false;
  is_escaped_ = false;
}

std::string without_lines_of_tags(std::string_view body) {
  std::string text;
  while (!body.empty()) {
    const auto end = body.find('\n');
    const auto line = body.substr(0, end == std::string_view::npos ? end : end + 1);
    body.remove_prefix(line.size());
    const auto content = trim(line.substr(0, line.find('\n')));
    text += is_line_of_tag(content) ? content : line;
  }
  return text;
}

std::optional<TagPiece> next_piece(std::string_view& text) {
  const auto begin = text.find("{{");
  if (begin == std::string_view::npos) return std::nullopt;
  const auto end = text.find("}}", begin);
  const auto [kind, name] = parts_of(text.substr(begin + 2, end - begin - 2));
  const TagPiece piece{text.substr(0, begin), kind, name};
  text.remove_prefix(end + 2);
  return piece;
}

std::string_view take_section(std::string_view& text) {
  const auto all = text;
  for (int open = 1; open > 0;) {
    const auto piece = next_piece(text);
    if (!piece) return std::exchange(text, {});
    if (piece->kind == '#' || piece->kind == '^') ++open;
    if (piece->kind == '/') --open;
    if (open == 0)
      return all.substr(0, static_cast<std::size_t>(piece->before.end() - all.begin()));
  }
  return {};
}

common::Result<Tags, TagFault> find_tags(std::string_view body, int first_line) {
  return TagFinder(body, first_line).run();
}

}  // namespace hvdrun
