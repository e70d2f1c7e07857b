// The tags in the body of a template: {{name}}, {{#name}} … {{/name}}, {{^name}} … {{/name}} and
// {{! a comment}}, which have the form of Mustache's (mustache(5)). How they are found, checked,
// and taken one by one.
//
// Pure functions and values, for any thread. Mistakes are returned as TagFault, with their line.
#pragma once

#include "common/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// A tag that shows a value or opens a section.
struct TemplateTag {
  std::string name;  // "." for the item of a list
  int line = 0;      // in the file, from 1
  bool opens_section = false;
  bool is_in_directive = false;  // on a #SBATCH line
};

struct TagFault {
  int line = 0;  // in the file, from 1
  std::string message;
};

// Returns the tags of a body whose first line has number `first_line` in its file, in order.
// Faults: a tag that is not closed or of a kind that is refused (script_template.hpp); a section
// that is not closed, or closed in another order;
// {{.}} outside a section; a value inside quotes or a here-document.
common::Result<std::vector<TemplateTag>, TagFault> find_tags(std::string_view body, int first_line);

// Returns the body without the indentation and line end of each line that holds only a comment or
// the tag of a section, because such a line shows nothing (mustache(5)).
std::string without_lines_of_tags(std::string_view body);

// A tag, and the text before it.
struct TagPiece {
  std::string_view before;
  char kind = ' ';  // '#' or '^': it opens a section; '/': it closes one; '!': a comment; else ' '
  std::string_view name;
};

// Takes the next tag, with the text before it, off the front of a body that find_tags() has
// checked. Returns nullopt, and takes nothing, if there is none.
std::optional<TagPiece> next_piece(std::string_view& text);

// Takes the rest of a section, whose opening tag was taken last, with its closing tag off the
// front. Returns what is inside.
std::string_view take_section(std::string_view& text);

// Follows a shell script character by character, to know whether a value would be in a comment, a
// #SBATCH line, quotes or a here-document. It knows only that much of bash(1)'s grammar, and of
// sbatch's the rule that options end at the first command.
class ScriptScan {
 public:
  void walk(std::string_view text);
  // Continues past a value, which is never empty text to the shell.
  void pass_value() { walk("x"); }

  int lines() const { return lines_; }  // that have ended
  bool is_in_directive() const;
  bool is_in_comment() const { return is_comment_ && !is_in_directive(); }
  bool is_in_quotes() const { return quote_ != 0 && !is_in_comment(); }
  bool is_in_here_document() const { return !here_end_.empty(); }
  // Returns the number, from 0, of the line with the first command that has ended so far; -1 if
  // there is none.
  int first_command() const { return first_command_; }

 private:
  void take(char letter);
  void end_line();

  std::string line_;  // so far
  int lines_ = 0;
  bool is_comment_ = false;  // from here to the line's end
  char quote_ = 0;
  bool is_escaped_ = false;
  std::string here_end_;  // the line that ends the here-document; empty outside one
  int first_command_ = -1;
};

}  // namespace hvdrun
