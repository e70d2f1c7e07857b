#include "common/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace common {
namespace {

// Names longer than this are not option names; the bound keeps the table small.
constexpr std::size_t kLongestName = 64;

// Returns the optimal string alignment distance.
std::size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// Returns whether `name` is the beginning of the candidate, and long enough to be meant so.
bool completes(std::string_view candidate, std::string_view name) {
  return name.size() >= 4 && candidate.substr(0, name.size()) == name;
}

// quote() cuts after this many bytes.
constexpr std::size_t kLongestQuote = 1024;

void append_hex(std::string& out, unsigned char byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

void append_escaped(std::string& out, unsigned char byte) {
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else if (byte < 0x20 || byte == 0x7f) {
    append_hex(out, byte);
  } else {
    out += static_cast<char>(byte);
  }
}

// Returns how many bytes the first character of the text has; 1 if it is not UTF-8.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (size > text.size()) return 1;
  const bool whole =
      std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(size),
                  [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
  return whole ? size : 1;
}

// Returns where to cut a long text so that no UTF-8 character is cut in two.
std::size_t cut_position(std::string_view text) {
  std::size_t cut = kLongestQuote;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return cut;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

// Returns where to end the first part, at or before `at`: after a newline if one is near.
std::size_t end_before(std::string_view text, std::size_t at) {
  const std::size_t newline = text.substr(0, at).rfind('\n');
  if (newline != std::string_view::npos && newline >= at / 2) return newline + 1;
  while (at > 0 && continues_character(text[at])) --at;
  return at;
}

// Returns where to begin the last part, at or after `at`: after a newline if one is near.
std::size_t begin_after(std::string_view text, std::size_t at) {
  const std::size_t newline = text.find('\n', at - 1);
  if (newline != std::string_view::npos && newline + 1 - at <= (text.size() - at) / 2)
    return newline + 1;
  while (at < text.size() && continues_character(text[at])) ++at;
  return at;
}

}  // namespace

std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates,
                              std::size_t letters) {
  if (name.empty() || name.size() > kLongestName) return {};
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(1, name.size() / letters) + 1;
  for (const auto candidate : candidates) {
    const std::size_t slips = completes(candidate, name) ? 1 : slips_between(name, candidate);
    if (slips < fewest) {
      fewest = slips;
      best = candidate;
    }
  }
  return best;
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) append_escaped(out, static_cast<unsigned char>(c));
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text.front());
    const auto last = static_cast<unsigned char>(text[size - 1]);
    const bool is_c0 = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
    // U+0080 to U+009F, or a single byte of that value, which an 8-bit terminal obeys.
    const bool is_c1 = (size == 1 || (size == 2 && first == 0xc2)) && last >= 0x80 && last < 0xa0;
    if (is_c0 || is_c1)
      append_hex(out, last);
    else
      out += text.substr(0, size);
    text.remove_prefix(size);
  }
  return out;
}

std::string quote(std::string_view text) {
  const bool is_long = text.size() > kLongestQuote;
  std::string out = "\"" + escape(is_long ? text.substr(0, cut_position(text)) : text);
  if (is_long) out += "…";
  out += '"';
  return out;
}

std::string quote_if_needed(std::string_view text) {
  const bool is_plain = !text.empty() && text.size() <= kLongestQuote &&
                        std::all_of(text.begin(), text.end(), [](unsigned char c) {
                          return c > ' ' && c != 0x7f && c != '"';
                        });
  return is_plain ? std::string(text) : quote(text);
}

Result<std::vector<PatternPart>, PatternError> parse_pattern(std::string_view text) {
  std::vector<PatternPart> parts;
  std::string literal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool brace = c == '{' || c == '}';
    if (!brace || text.substr(i + 1, 1) == text.substr(i, 1)) {
      literal += c;
      i += brace ? 1 : 0;
      continue;
    }
    if (c == '}') return PatternError::unopened_brace;
    const std::size_t end = text.find('}', i);
    if (end == std::string_view::npos) return PatternError::unclosed_brace;
    if (!literal.empty()) parts.push_back({std::exchange(literal, {}), false});
    parts.push_back({std::string(text.substr(i + 1, end - i - 1)), true});
    i = end;
  }
  if (!literal.empty()) parts.push_back({std::move(literal), false});
  return parts;
}

// Returns the number of characters, if the text is UTF-8.
static std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

std::vector<std::string> table_lines(const std::vector<TableRow>& rows) {
  if (rows.empty()) return {};
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string describe_ranks(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + fold_ranks(ranks);
}

std::string fold_ranks(std::span<const int> unordered) {
  std::vector<int> ranks(unordered.begin(), unordered.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first > 0) text += ',';
    text += std::to_string(ranks[first]);
    if (last > first) text += '-' + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

void copy_text(std::span<char> field, std::string_view text) {
  const std::size_t length = text.copy(field.data(), field.size() - 1);
  field[length] = '\0';
}

std::string without_middle(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr std::size_t kNote = 80;  // room for the line between, and a newline before it
  const std::size_t room = most - kNote;
  const std::size_t end = end_before(text, room / 4);
  const std::size_t begin = begin_after(text, text.size() - (room - room / 4));
  const std::string_view left_out = text.substr(end, begin - end);
  const auto lines = std::count(left_out.begin(), left_out.end(), '\n');
  std::string shortened(text.substr(0, end));
  if (!shortened.ends_with('\n')) shortened += '\n';
  shortened += "  [... " + (lines > 1 ? std::to_string(lines) + " lines, " : std::string()) +
               std::to_string(left_out.size()) + " bytes left out ...]\n";
  shortened += text.substr(begin);
  return shortened;
}

std::string_view field_text(std::span<const char> field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* first = text.data() + 2 * i;
    const auto [stop, code] = std::from_chars(first, first + 2, bytes[i], 16);
    if (code != std::errc() || stop != first + 2) return std::nullopt;
  }
  return bytes;
}

}  // namespace common
