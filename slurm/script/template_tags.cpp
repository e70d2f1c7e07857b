#include "slurm/script/template_tags.hpp"

#include "base/quote.hpp"
#include "slurm/script/script_scan.hpp"
#include "slurm/script/trim.hpp"

#include <algorithm>
#include <optional>

namespace hvdrun {
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

  tl::expected<Tags, TagFault> run() {
    while (true) {
      const auto begin = body_.find("{{", at_);
      walk_text(body_.substr(at_, begin == std::string_view::npos ? begin : begin - at_));
      if (fault_) return tl::unexpected(std::move(*fault_));
      if (begin == std::string_view::npos) break;
      at_ = begin + 2;
      const auto end = body_.find("}}", at_);
      if (end == std::string_view::npos) return fault("the tag {{ has no end: }}");
      take(body_.substr(at_, end - at_));
      if (fault_) return tl::unexpected(std::move(*fault_));
      at_ = end + 2;
    }
    if (!open_.empty())
      return tl::unexpected(TagFault{open_.back().line, "the section " + quote(open_.back().name) +
                                                            " has no end: {{/" + open_.back().name +
                                                            "}}"});
    return std::move(tags_);
  }

 private:
  // sbatch no longer looks for its options behind the first command.
  void walk_text(std::string_view text) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      scan_.walk(text.substr(0, end));
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

  tl::unexpected<TagFault> fault(std::string message) const {
    return tl::unexpected(TagFault{line(), std::move(message)});
  }

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

tl::expected<Tags, TagFault> find_tags(std::string_view body, int first_line) {
  return TagFinder(body, first_line).run();
}

}  // namespace hvdrun
