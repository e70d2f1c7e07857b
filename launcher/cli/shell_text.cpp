#include "cli/shell_text.hpp"

#include "base/is_one_of.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

namespace hvdrun::cli {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// Words before a command that do not change whether it runs.
constexpr std::array<std::string_view, 9> kBefore{"do",   "time",    "!",      "{",      "while",
                                                  "exec", "command", "coproc", "builtin"};
constexpr std::array<std::string_view, 5> kBranchWords{"then", "else", "elif", "until", "if"};
// Commands that are asked something, so that what follows "&&" may not run. "-v" is `command -v`.
constexpr std::array<std::string_view, 17> kConditions{
    "[",     "[[",    "test",  "-v",  "-V",   "which", "type",       "hash", "grep",
    "egrep", "fgrep", "pgrep", "cmp", "diff", "false", "mountpoint", "read"};

bool is_condition(const std::vector<std::string>& words) {
  return is_one_of(words.front(), kConditions) || words.back() == "]]";
}

// Returns whether the command is an exit with an error. What follows it in a script is for the
// usual case.
bool is_error_exit(const std::vector<std::string>& words) {
  return words.front() == "exit" && words.size() > 1 && words[1] != "0" &&
         words[1].find_first_not_of("0123456789") == std::string::npos;
}

class ShellScan {
 public:
  explicit ShellScan(std::string_view text) : text_(text) {}

  std::vector<ShellCommand> run() {
    while (at_ < text_.size() && !is_over_) step();
    end_command();
    return std::move(commands_);
  }

 private:
  enum class Kind { branch, choice, function, group, subshell };
  struct Block {
    Kind kind;
    bool is_in_doubt;  // the block may not run at all
  };

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = text_[at_];
    if (is_blank(c)) {
      end_word();
      ++at_;
    } else if (c == '\n') {
      end_line();
      ++at_;
      skip_here_documents();
    } else if (c == '#' && !has_word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\' || c == '\'' || c == '"' || c == '`' || c == '$') {
      take_quoted(c);
    } else if (c == '<' || c == '>' || (c == '&' && peek(1) == '>')) {
      take_redirection();
    } else if (c == ';' || c == '|' || c == '&') {
      take_separator(c);
    } else if (c == '(' || c == ')') {
      take_parenthesis(c);
    } else {
      add(c);
      ++at_;
    }
  }

  void add(char c) {
    word_ += c;
    has_word_ = true;
  }

  void take_quoted(char c) {
    ++at_;
    if (c == '\\') {
      if (peek() == '\n')
        ++at_;
      else if (at_ < text_.size())
        add(text_[at_++]);
    } else if (c == '\'') {
      const auto end = std::min(text_.find('\'', at_), text_.size());
      word_ += text_.substr(at_, end - at_);
      has_word_ = true;
      at_ = std::min(end + 1, text_.size());
    } else if (c == '"') {
      take_double_quoted();
    } else if (c == '`') {
      add(c);
      while (at_ < text_.size() && text_[at_] != '`') add(text_[at_++]);
      if (at_ < text_.size()) add(text_[at_++]);
    } else {
      add(c);
      if (peek() == '(' || peek() == '{') take_balanced();
    }
  }

  void take_double_quoted() {
    has_word_ = true;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' &&
          std::string_view("\"\\$`\n").find(peek(1)) != std::string_view::npos)
        ++at_;
      if (text_[at_] == '$' && (peek(1) == '(' || peek(1) == '{')) {
        add(text_[at_++]);
        take_balanced();
      } else if (at_ < text_.size()) {
        add(text_[at_++]);
      }
    }
    if (at_ < text_.size()) ++at_;
  }

  // Takes "(…)" or "{…}" after a "$" as it is.
  void take_balanced() {
    const char open = text_[at_];
    const char close = open == '(' ? ')' : '}';
    int depth = 0;
    do {
      depth += text_[at_] == open ? 1 : text_[at_] == close ? -1 : 0;
      add(text_[at_++]);
    } while (depth > 0 && at_ < text_.size());
  }

  void take_redirection() {
    if (word_.find_first_not_of("0123456789") == std::string_view::npos) drop_word();  // "2>"
    end_word();
    const bool is_here = text_.substr(at_, 2) == "<<" && peek(2) != '<';
    while (at_ < text_.size() &&
           std::string_view("<>&|").find(text_[at_]) != std::string_view::npos)
      ++at_;
    if (is_here && peek() == '-') ++at_;
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    (is_here ? is_delimiter_ : is_target_) = true;
  }

  void take_separator(char c) {
    const bool is_or = c == '|' && peek(1) == '|';
    const bool is_and = c == '&' && peek(1) == '&';
    end_command();
    continues_ = is_or || is_and || c == '|';
    is_in_doubt_ = continues_ && (is_in_doubt_ || is_or || (is_and && was_condition_));
    at_ += is_or || is_and ? 2 : 1;
    if (peek() == ';' || peek() == '&') ++at_;  // ";;", "|&"
  }

  void end_line() {
    end_command();
    if (!continues_) is_in_doubt_ = false;
  }

  void take_parenthesis(char c) {
    const bool is_choice = !blocks_.empty() && blocks_.back().kind == Kind::choice;
    if (c == '(' && word_.ends_with('=')) return take_balanced();  // of an array
    ++at_;
    if (c == ')' && is_choice) {  // a pattern of `case`
      words_.clear();
      drop_word();
    } else if (c == '(' && has_word_ && peek() == ')') {  // "name()"
      ++at_;
      drop_word();
      is_function_next_ = true;
    } else if (c == '(' && peek() == '(') {  // "((i < 2))"
      at_ = std::min(text_.find("))", at_), text_.size() - 2) + 2;
      was_condition_ = true;
    } else {
      end_command();
      if (c == '(')
        open(Kind::subshell);
      else if (!blocks_.empty() && blocks_.back().kind == Kind::subshell)
        close();
    }
  }

  void drop_word() {
    word_.clear();
    has_word_ = false;
  }

  void open(Kind kind) {
    blocks_.push_back({kind, std::exchange(is_in_doubt_, false)});
    continues_ = false;
  }

  void close() {
    if (blocks_.empty()) return;
    is_in_doubt_ = blocks_.back().is_in_doubt;
    blocks_.pop_back();
  }

  void end_word() {
    if (!has_word_) return;
    has_word_ = false;
    auto word = std::exchange(word_, {});
    if (std::exchange(is_target_, false)) return;
    if (std::exchange(is_delimiter_, false)) {
      delimiters_.push_back(std::move(word));
      return;
    }
    continues_ = false;
    if (words_.empty() && take_first(word)) return;
    words_.push_back(std::move(word));
  }

  // Takes a first word that is the shell's own. Returns false for that of a command.
  bool take_first(const std::string& word) {
    if (word == "function") {
      is_function_next_ = names_function_ = true;
      return true;
    }
    if (std::exchange(names_function_, false)) return true;
    if (word == "if") open(Kind::branch);
    if (word == "case") open(Kind::choice);
    if (word == "{") open(std::exchange(is_function_next_, false) ? Kind::function : Kind::group);
    if (word == "fi" || word == "esac" || word == "}") {
      close();
      return true;
    }
    if (word == "exec") is_last_ = true;
    if (word == "!") is_negated_ = true;
    return is_one_of(word, kBefore) || is_one_of(word, kBranchWords) || is_assignment(word);
  }

  bool is_in(auto... kinds) const {
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [&](const Block& block) { return ((block.kind == kinds) || ...); });
  }

  void end_command() {
    end_word();
    const bool is_last = std::exchange(is_last_, false);
    const bool is_negated = std::exchange(is_negated_, false);
    if (words_.empty()) return;
    const bool is_certain = !is_in_doubt_ && !may_be_over_ &&
                            !is_in(Kind::branch, Kind::choice, Kind::function) &&
                            std::none_of(blocks_.begin(), blocks_.end(),
                                         [](const Block& block) { return block.is_in_doubt; });
    // An exit of a subshell or of a function does not end the text.
    if ((is_last || words_.front() == "exit") && !is_in(Kind::subshell, Kind::function)) {
      is_over_ = is_certain;
      may_be_over_ |= !is_error_exit(words_);
    }
    was_condition_ = is_negated || is_condition(words_);
    commands_.push_back({std::exchange(words_, {}), is_certain});
  }

  void skip_here_documents() {
    for (const auto& delimiter : std::exchange(delimiters_, {})) {
      while (at_ < text_.size()) {
        const auto end = std::min(text_.find('\n', at_), text_.size());
        auto line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line == delimiter) break;
      }
    }
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  bool has_word_ = false;  // an empty word in quotes is one
  std::vector<std::string> words_;
  std::vector<Block> blocks_;
  bool is_in_doubt_ = false;    // the next command may not run, because of "||" or "&&"
  bool continues_ = false;      // an operator came last, so the next line continues the list
  bool was_condition_ = false;  // the last command
  bool may_be_over_ = false;    // an exit came that may not run
  bool is_target_ = false;      // the next word is a redirection's file
  bool is_delimiter_ = false;   // the next word ends a here-document
  std::vector<std::string> delimiters_;
  bool is_function_next_ = false;
  bool names_function_ = false;
  bool is_last_ = false;  // the command replaces the shell
  bool is_negated_ = false;
  bool is_over_ = false;
  std::vector<ShellCommand> commands_;
};

}  // namespace

bool is_assignment(std::string_view word) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  auto name = word.substr(0, equals);
  if (name.ends_with('+')) name.remove_suffix(1);
  return is_name(name);
}

std::vector<ShellCommand> commands_of(std::string_view text) {
  return ShellScan(text).run();
}

}  // namespace hvdrun::cli
