#include "output/screen.hpp"

#include <cstddef>
#include <cstring>

namespace hvdrun {
namespace {

// Moves the cursor to the line's first column, and erases the line.
constexpr std::string_view kErase = "\r\x1b[K";
constexpr std::string_view kUp = "\x1b[A";
constexpr std::string_view kBetweenFields = " \u00b7 ";

bool only_ends_line(std::string_view head, std::string_view tail) {
  return head.empty() && tail.find_first_not_of("\r\n") == std::string_view::npos;
}

}  // namespace

void Screen::whole_lines(std::string_view label, std::string_view lines) {
  if (open_ != Open::none) make_way(kLauncher);
  if (label.empty()) {
    queue_.append(lines);
    return;
  }
  // All fast output passes through this loop: one search and two copies a line.
  const char* from = lines.data();
  const char* const end = from + lines.size();
  while (from != end) {
    const auto* newline =
        static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(end - from)));
    const auto length = static_cast<std::size_t>(newline + 1 - from);
    char* to = queue_.room(label.size() + length);
    std::memcpy(to, label.data(), label.size());
    std::memcpy(to + label.size(), from, length);
    queue_.added(label.size() + length);
    from += length;
  }
}

void Screen::labelled(std::string_view label, std::string_view head, std::string_view tail) {
  queue_.append(label);
  queue_.append(head);
  queue_.append(tail);
}

void Screen::make_way(Owner owner) {
  erase_status();
  const bool erase =
      erasable_ && (open_ == Open::progress || (open_ == Open::partial && owner == owner_));
  if (open_ != Open::none) queue_.append(erase ? kErase : "\n");
  open_ = Open::none;
}

void Screen::line(Owner owner, std::string_view label, std::string_view head,
                  std::string_view tail) {
  make_way(owner);
  labelled(label, head, tail);
}

void Screen::rest(Owner owner, std::string_view label, std::string_view head,
                  std::string_view tail) {
  if (is_open_for(owner)) {
    labelled({}, head, tail);
    open_ = Open::none;
    return;
  }
  // The newline before another line has ended this one already.
  if (only_ends_line(head, tail)) return;
  make_way(kLauncher);
  labelled(label, head, tail);
}

void Screen::partial(Owner owner, std::string_view label, std::string_view text) {
  if (is_open_for(owner)) {
    queue_.append(text);
    erasable_ = false;
    return;
  }
  make_way(owner);
  erasable_ = can_redraw(label, text);
  labelled(label, text, {});
  open_ = Open::partial;
  owner_ = owner;
}

bool Screen::progress(Owner owner, std::string_view label, std::string_view text) {
  make_way(owner);
  if (!can_redraw(label, text)) {
    labelled(label, text, "\n");
    return false;
  }
  labelled(label, text, {});
  open_ = Open::progress;
  owner_ = owner;
  erasable_ = true;
  return true;
}

bool Screen::can_redraw(std::string_view label, std::string_view text) const {
  if (!columns_) return false;
  const int columns = columns_();
  // This many bytes in one row would be mostly colours: it is not worth measuring them.
  if (columns <= 0 || label.size() + text.size() > static_cast<std::size_t>(columns) * 8)
    return false;
  return display_columns(label) + display_columns(text) < columns;
}

void Screen::note(std::string_view text) {
  make_way(kLauncher);
  labelled({}, text, "\n");
}

void Screen::status(std::vector<std::string> fields) {
  if (fields == status_) return;
  erase_status();
  status_ = std::move(fields);
}

void Screen::draw_status() {
  const bool below_bar = open_ == Open::progress;
  if ((open_ != Open::none && !below_bar) || status_.empty() || !columns_) return;
  // One column stays free: a full row would move the cursor to the next.
  const std::string text = fit_fields(status_, columns_() - 1);
  if (text.empty()) return;
  if (below_bar) queue_.append("\n");
  queue_.append(kNoWrap);
  queue_.append(text);
  queue_.append(kWrap);
  open_ = Open::status;
  status_below_bar_ = below_bar;
}

void Screen::erase_status() {
  if (open_ != Open::status) return;
  queue_.append(kEraseStatus);
  if (status_below_bar_) queue_.append(kUp);
  open_ = status_below_bar_ ? Open::progress : Open::none;
}

std::string fit_fields(const std::vector<std::string>& fields, int columns) {
  std::string text;
  int used = 0;
  for (const std::string& field : fields) {
    const std::string_view between = text.empty() ? std::string_view() : kBetweenFields;
    used += display_columns(between) + display_columns(field);
    if (used > columns) break;
    text += between;
    text += field;
  }
  return text;
}

int display_columns(std::string_view text) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {
      // A control sequence ends with a byte from '@' to '~' (ECMA-48, 5.4).
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    } else if (byte == '\t') {
      columns += 8;
    } else if ((byte & 0xc0) != 0x80) {
      // Most characters from U+3000 on (first byte 0xe3 and up) are wide; all beyond U+FFFF may be.
      columns += byte >= 0xe3 ? 2 : 1;
    }
  }
  return columns;
}

}  // namespace hvdrun
