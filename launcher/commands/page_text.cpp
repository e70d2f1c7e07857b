#include "commands/page_text.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace hvdrun {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::size_t kIndent = 4;

// Returns the width of UTF-8 text, as if each character had one column.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// Returns the text with links replaced by what they show, and without marks of bold text. Code
// between backticks stays as it is.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '`') {
      const auto end = std::min(text.find('`', i + 1), text.size() - 1);
      out += text.substr(i, end + 1 - i);
      i = end + 1;
      continue;
    }
    const auto middle = text[i] == '[' ? text.find("](", i) : std::string_view::npos;
    const auto end = middle == std::string_view::npos ? middle : text.find(')', middle);
    if (end != std::string_view::npos) {
      out += plain(text.substr(i + 1, middle - i - 1));
      i = end + 1;
    } else if (text.substr(i, 2) == "**") {
      i += 2;
    } else if (text[i] == '\\' && i + 1 < text.size() && std::ispunct(text[i + 1]) != 0) {
      out += text[i + 1];
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// Fills the words into lines. All but the first begin with `indent` blanks.
std::string filled(std::string_view first, std::size_t indent, std::string_view text,
                   std::size_t width) {
  std::string out(first);
  std::size_t column = columns_of(first);
  bool is_first = true;
  while (!text.empty()) {
    const auto space = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    const auto size = columns_of(word);
    if (!is_first && column + 1 + size > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += size;
    is_first = false;
  }
  return out + "\n";
}

TableRow cells_of(std::string_view line) {
  TableRow cells;
  std::string cell;
  bool in_code = false;
  line = trimmed(line);
  line.remove_prefix(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '`') in_code = !in_code;
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|' && !in_code) {
      cells.push_back(plain(trimmed(cell)));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  cells.push_back(plain(trimmed(cell)));
  return cells;
}

std::string table_text(const std::vector<std::string_view>& lines, std::size_t width) {
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (i != 1) rows.push_back(cells_of(lines[i]));
  std::string out;
  const auto aligned = table_lines(rows);
  if (std::ranges::all_of(aligned, [&](const auto& line) { return columns_of(line) <= width; })) {
    for (const auto& line : aligned) out += line + "\n";
    return out;
  }
  const TableRow& titles = rows.front();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (i > 1) out += "\n";
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      const auto& cell = rows[i][column];
      if (cell.empty()) continue;
      const bool has_title = column > 0 && column < titles.size() && !titles[column].empty();
      const auto text = has_title ? titles[column] + ": " + cell : cell;
      out += filled(column == 0 ? "" : std::string(kIndent, ' '), kIndent, text, width);
    }
  }
  return out;
}

// Returns how many bytes of the line are the mark of a list's item, with its indentation: "  - ".
std::size_t item_mark(std::string_view line) {
  const auto begin = std::min(line.find_first_not_of(' '), line.size());
  const auto text = line.substr(begin);
  if (text.starts_with("- ") || text.starts_with("* ")) return begin + 2;
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits > 0 && text.substr(digits).starts_with(". ") ? begin + digits + 2 : 0;
}

// Reads the page line by line. A paragraph or a table is written when it ends.
class Writer {
 public:
  explicit Writer(std::size_t width) : width_(width) {}

  void take(std::string_view line) {
    if (trimmed(line).starts_with(kFence)) {
      end_block();
      in_code_ = !in_code_;
    } else if (in_code_) {
      out_ += line.empty() ? "\n" : std::string(kIndent, ' ') + std::string(line) + "\n";
    } else if (line.starts_with('|')) {
      end_paragraph();
      table_.push_back(line);
    } else if (line.empty()) {
      end_block();
      if (!out_.ends_with("\n\n")) out_ += "\n";
    } else if (line.starts_with('#')) {
      end_block();
      heading(line);
    } else {
      text(line);
    }
  }

  std::string finish() {
    end_block();
    return out_;
  }

 private:
  void heading(std::string_view line) {
    const auto level = line.find_first_not_of('#');
    const auto title = plain(trimmed(line.substr(std::min(level, line.size()))));
    const auto length = std::min(columns_of(title), width_);
    out_ += filled("", 0, title, width_) + std::string(length, level == 1 ? '=' : '-') + "\n";
  }

  void text(std::string_view line) {
    end_table();
    if (const auto mark = item_mark(line); mark > 0) {
      end_paragraph();
      first_ = line.substr(0, mark);
      line.remove_prefix(mark);
    }
    if (!paragraph_.empty()) paragraph_ += ' ';
    paragraph_ += trimmed(line);
  }

  void end_paragraph() {
    if (!paragraph_.empty()) out_ += filled(first_, first_.size(), plain(paragraph_), width_);
    paragraph_.clear();
    first_.clear();
  }

  void end_table() {
    if (table_.size() > 1) out_ += table_text(table_, width_);
    table_.clear();
  }

  void end_block() {
    end_paragraph();
    end_table();
  }

  const std::size_t width_;
  std::string out_;
  std::string first_;      // the mark of the list's item
  std::string paragraph_;  // its text so far
  std::vector<std::string_view> table_;
  bool in_code_ = false;
};

}  // namespace

std::string page_text(std::string_view page, std::size_t width) {
  Writer writer(width);
  while (!page.empty()) {
    const auto end = std::min(page.find('\n'), page.size());
    writer.take(page.substr(0, end));
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return writer.finish();
}

std::string page_title(std::string_view page) {
  if (!page.starts_with("# ")) return {};
  return plain(trimmed(page.substr(2, page.find('\n') - 2)));
}

}  // namespace hvdrun
