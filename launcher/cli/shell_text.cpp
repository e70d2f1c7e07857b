#include "cli/shell_text.hpp"

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

bool is_shells_word(std::string_view word, const auto& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Words before a command that do not change whether it runs.
constexpr std::array<std::string_view, 9> kBefore{"do",   "time",    "!",      "{",      "while",
                                                  "exec", "command", "coproc", "builtin"};
constexpr std::array<std::string_view, 5> kBranchWords{"then", "else", "elif", "until", "if"};

class ShellScan {
 public:
  explicit ShellScan(std::string_view text) : text_(text) {}

  std::vector<ShellCommand> run() {
    while (at_ < text_.size() && !is_over_) step();
    end_command();
    return std::move(commands_);
  }

 private:
  enum class Block { branch, choice, function, group };

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = text_[at_];
    if (is_blank(c)) {
      end_word();
      ++at_;
    } else if (c == '\n') {
      end_command();
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
    if (word_.find_first_not_of("0123456789") == std::string_view::npos) {  // "2>"
      word_.clear();
      has_word_ = false;
    }
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
    follows_or_ = is_or || (is_and && follows_or_);
    at_ += is_or || is_and ? 2 : 1;
    if (peek() == ';' || peek() == '&') ++at_;  // ";;", "|&"
  }

  void take_parenthesis(char c) {
    const bool is_choice = !blocks_.empty() && blocks_.back() == Block::choice;
    ++at_;
    if (c == ')' && is_choice && subshells_ == 0) {  // a pattern of `case`
      words_.clear();
      word_.clear();
      has_word_ = false;
      return;
    }
    if (c == '(' && has_word_ && peek() == ')') {  // "name()"
      ++at_;
      word_.clear();
      has_word_ = false;
      is_function_next_ = true;
      return;
    }
    subshells_ = std::max(0, subshells_ + (c == '(' ? 1 : -1));
    end_command();
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
    if (word == "if") blocks_.push_back(Block::branch);
    if (word == "case") blocks_.push_back(Block::choice);
    if (word == "{")
      blocks_.push_back(std::exchange(is_function_next_, false) ? Block::function : Block::group);
    if (word == "fi" || word == "esac" || word == "}") {
      if (!blocks_.empty()) blocks_.pop_back();
      return true;
    }
    if (word == "exec") is_last_ = true;
    return is_shells_word(word, kBefore) || is_shells_word(word, kBranchWords) ||
           is_assignment(word);
  }

  void end_command() {
    end_word();
    const bool is_certain =
        !follows_or_ && std::all_of(blocks_.begin(), blocks_.end(),
                                    [](Block block) { return block == Block::group; });
    follows_or_ = false;
    const bool is_last = std::exchange(is_last_, false);
    if (words_.empty()) return;
    is_over_ = is_certain && subshells_ == 0 && (is_last || words_.front() == "exit");
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
  int subshells_ = 0;
  bool follows_or_ = false;
  bool is_target_ = false;     // the next word is a redirection's file
  bool is_delimiter_ = false;  // the next word ends a here-document
  std::vector<std::string> delimiters_;
  bool is_function_next_ = false;
  bool names_function_ = false;
  bool is_last_ = false;
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
