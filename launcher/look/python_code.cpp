#include "look/python_code.hpp"

#include <algorithm>
#include <array>

namespace hvdrun {
namespace {

constexpr std::size_t kMostText = 1024;
constexpr std::int64_t kMostTable = 1 << 20;
constexpr std::size_t kInstruction = 2;  // bytes

// The bits of a text's state where the kind begins, in one build or another.
constexpr std::array<std::uint32_t, 3> kKindBits{2, 8, 16};

void append_utf8(std::string& text, std::uint32_t letter) {
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (letter < 0x80) {
    add(letter);
  } else if (letter < 0x800) {
    add(0xc0U | (letter >> 6U));
    add(0x80U | (letter & 0x3fU));
  } else if (letter < 0x10000) {
    add(0xe0U | (letter >> 12U));
    add(0x80U | ((letter >> 6U) & 0x3fU));
    add(0x80U | (letter & 0x3fU));
  } else {
    add(0xf0U | ((letter >> 18U) & 0x07U));
    add(0x80U | ((letter >> 12U) & 0x3fU));
    add(0x80U | ((letter >> 6U) & 0x3fU));
    add(0x80U | (letter & 0x3fU));
  }
}

// A number in groups of 6 bits, the lowest first.
std::uint32_t read_varint(const std::vector<std::uint8_t>& table, std::size_t& at) {
  std::uint32_t value = 0;
  for (unsigned shift = 0; at < table.size() && shift < 32; shift += 6) {
    const std::uint8_t byte = table[at++];
    value |= static_cast<std::uint32_t>(byte & 0x3fU) << shift;
    if ((byte & 0x40U) == 0) break;
  }
  return value;
}

int read_signed_varint(const std::vector<std::uint8_t>& table, std::size_t& at) {
  const std::uint32_t value = read_varint(table, at);
  const int size = static_cast<int>(value >> 1U);
  return (value & 1U) != 0 ? -size : size;
}

// 3.11 and later: entries that begin with a byte whose highest bit is set.
int line_by_locations(const std::vector<std::uint8_t>& table, int line, long offset) {
  constexpr unsigned kOneLine = 10;  // to 12: so many lines more
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kLong = 14;
  constexpr unsigned kNone = 15;
  long end = 0;
  for (std::size_t at = 0; at < table.size();) {
    const std::uint8_t first = table[at++];
    const unsigned code = (first >> 3U) & 15U;
    end += static_cast<long>(((first & 7U) + 1) * kInstruction);
    if (code == kNoColumns || code == kLong)
      line += read_signed_varint(table, at);
    else if (code >= kOneLine && code < kNoColumns)
      line += static_cast<int>(code - kOneLine);
    if (offset < end) return code == kNone ? 0 : line;
    while (at < table.size() && (table[at] & 0x80U) == 0) ++at;
  }
  return 0;
}

// 3.10: pairs of a size in bytes, and of lines more; -128: no line.
int line_by_ranges(const std::vector<std::uint8_t>& table, int line, long offset) {
  long end = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    end += table[at];
    const auto more = static_cast<std::int8_t>(table[at + 1]);
    if (more != -128) line += more;
    if (offset < end) return more == -128 ? 0 : line;
  }
  return line;
}

// 3.9: pairs of bytes more, and of lines more from there on.
int line_by_steps(const std::vector<std::uint8_t>& table, int line, long offset) {
  long start = 0;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    start += table[at];
    if (start > offset) break;
    line += static_cast<std::int8_t>(table[at + 1]);
  }
  return line;
}

}  // namespace

int python_line(int minor, const std::vector<std::uint8_t>& table, int first_line, long offset) {
  if (offset < 0) return first_line;
  if (minor >= 11) return line_by_locations(table, first_line, offset);
  if (minor == 10) return line_by_ranges(table, first_line, offset);
  return line_by_steps(table, first_line, offset);
}

std::string PythonCode::text_at(Address object) const {
  const auto length = memory_->get<std::int64_t>(object + layout_.text_length);
  const auto state = memory_->get<std::uint32_t>(object + layout_.text_state);
  if (!length || !state || *length < 0) return {};
  const auto is_text = [&state](std::uint32_t bit) {
    const std::uint32_t kind = (*state >> bit) & 7U;
    const bool compact = ((*state >> (bit + 3)) & 1U) != 0;
    const bool ascii = ((*state >> (bit + 4)) & 1U) != 0;
    return compact && (kind == 1 || (!ascii && (kind == 2 || kind == 4)));
  };
  auto bit = layout_.text_kind_bit;
  if (!is_text(bit)) {
    const auto* other = std::find_if(kKindBits.begin(), kKindBits.end(), is_text);
    if (other == kKindBits.end()) return {};
    bit = *other;
  }
  const std::size_t kind = (*state >> bit) & 7U;
  const bool ascii = ((*state >> (bit + 4)) & 1U) != 0;
  const Address start = object + layout_.text_ascii_size + (ascii ? 0 : layout_.text_more);
  const std::size_t letters = std::min<std::size_t>(static_cast<std::size_t>(*length), kMostText);
  std::vector<std::uint8_t> bytes(letters * kind);
  if (!memory_->read(start, bytes.data(), bytes.size())) return {};
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += kind) {
    std::uint32_t letter = 0;
    for (std::size_t byte = 0; byte < kind; ++byte)
      letter |= static_cast<std::uint32_t>(bytes[at + byte]) << (8 * byte);
    append_utf8(text, letter);
  }
  return text;
}

const PythonCode::Code& PythonCode::code_at(Address address) {
  const auto [at, is_new] = known_.try_emplace(address);
  Code& code = at->second;
  if (!is_new) return code;
  code.function = text_at(memory_->pointer(address + layout_.code_name));
  code.file = text_at(memory_->pointer(address + layout_.code_file));
  code.first_line = memory_->get<std::int32_t>(address + layout_.code_first_line).value_or(0);
  const Address table = memory_->pointer(address + layout_.code_lines);
  const auto size = memory_->get<std::int64_t>(table + layout_.bytes_size).value_or(0);
  if (size > 0 && size <= kMostTable) {
    code.lines.resize(static_cast<std::size_t>(size));
    if (!memory_->read(table + layout_.bytes_start, code.lines.data(), code.lines.size()))
      code.lines.clear();
  }
  return code;
}

long PythonCode::offset_of(const PythonFrame& frame) const {
  if (layout_.way == FrameWay::object) {
    const auto last = static_cast<std::int32_t>(frame.at);
    return layout_.minor == 9 ? last : last * static_cast<long>(kInstruction);
  }
  Address start = frame.code + layout_.code_start;
  if (layout_.code_copies != kMissing && frame.copy > 0) {
    const Address copies = memory_->pointer(frame.code + layout_.code_copies);
    const auto count = memory_->get<std::int64_t>(copies).value_or(0);
    if (frame.copy < count)
      start = memory_->pointer(copies + 8 + static_cast<Address>(frame.copy) * 8);
  }
  return static_cast<long>(frame.at - start);
}

PythonPlace PythonCode::place_of(const PythonFrame& frame) {
  const Code& code = code_at(frame.code);
  PythonPlace place{code.function, code.file, 0};
  if (place.function.empty()) place.function = "?";
  if (place.file.empty()) place.file = "?";
  place.line = python_line(layout_.minor, code.lines, code.first_line, offset_of(frame));
  return place;
}

}  // namespace hvdrun
