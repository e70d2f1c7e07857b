// Where in a shell script one is: in a comment, a #SBATCH line, quotes, a here-document. Enough of
// bash(1)'s grammar to tell where a value must not be put, and of sbatch's to tell where its
// options end; not a parser.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

class ScriptScan {
 public:
  void walk(std::string_view text);
  // A value stands here.
  void pass_value() { walk("x"); }

  int lines() const { return lines_; }  // that have ended
  bool is_in_directive() const;
  bool is_in_comment() const { return is_comment_ && !is_in_directive(); }
  bool is_in_quotes() const { return quote_ != 0 && !is_in_comment(); }
  bool is_in_here_document() const { return !here_end_.empty(); }
  // The number of the line, from 0, with the first command before this one; -1: none yet.
  int first_command() const { return first_command_; }

 private:
  void take(char letter);
  void end_line();

  std::string line_;  // so far
  int lines_ = 0;
  bool is_comment_ = false;  // the line, or what is left of it
  char quote_ = 0;
  bool is_escaped_ = false;
  std::string here_end_;  // the line that ends the here-document; empty: in none
  int first_command_ = -1;
};

}  // namespace hvdrun
