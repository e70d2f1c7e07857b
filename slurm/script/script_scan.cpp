#include "slurm/script/script_scan.hpp"

#include "slurm/script/trim.hpp"

namespace hvdrun {
namespace {

constexpr std::string_view kDirective = "#SBATCH";

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

}  // namespace hvdrun
