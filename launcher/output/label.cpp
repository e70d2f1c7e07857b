#include "output/label.hpp"

#include "common/text.hpp"
#include "output/color.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

constexpr std::array<std::pair<std::string_view, LabelField>, 6> kFields = {{
    {"rank", LabelField::rank},
    {"host", LabelField::host},
    {"local_rank", LabelField::local_rank},
    {"size", LabelField::size},
    {"time", LabelField::time},
    {"stream", LabelField::stream},
}};

std::optional<LabelField> field_named(std::string_view name) {
  for (const auto& [known, field] : kFields)
    if (known == name) return field;
  return std::nullopt;
}

Error bad_label(std::string_view text, std::string_view why) {
  return fail(
      fmt::format("--label '{}': {}; known are {{rank}}, {{host}}, {{local_rank}}, {{size}}, "
                  "{{time}} and {{stream}}, and '{{{{' stands for a brace",
                  text, why),
      kExitUsage);
}

Result<std::vector<LabelPiece>> parse_pieces(std::string_view text) {
  if (text.find_first_of("\n\r") != std::string_view::npos)
    return bad_label(text, "a label is one line");
  auto parts = parse_pattern(text);
  if (!parts)
    return bad_label(text, parts.error() == PatternError::unclosed_brace
                               ? "a '{' has no '}' after it"
                               : "a '}' has no '{' before it");
  std::vector<LabelPiece> pieces;
  for (PatternPart& part : *parts) {
    const auto field = part.is_name ? field_named(part.text) : std::nullopt;
    if (part.is_name && !field)
      return bad_label(text, fmt::format("{{{}}} is not known", part.text));
    pieces.push_back({field ? std::string() : std::move(part.text), field});
  }
  return pieces;
}

// Returns a field's text for one rank. The text of {time} is empty here.
std::string field_text(LabelField field, int size, const std::string& host,
                       const RankPlacement& rank, Stream stream) {
  switch (field) {
    case LabelField::rank:
      return std::to_string(rank.rank);
    case LabelField::host:
      return host;
    case LabelField::local_rank:
      return std::to_string(rank.local_rank);
    case LabelField::size:
      return std::to_string(size);
    case LabelField::stream:
      return stream == Stream::out ? "stdout" : "stderr";
    case LabelField::time:
      break;
  }
  return {};
}

// Returns the index of a rank's stream among all.
std::size_t slot(int rank, Stream stream) {
  return static_cast<std::size_t>(rank) * 2 + (stream == Stream::err ? 1 : 0);
}

// Returns the number of bytes of a label's parts together.
std::size_t width_of(const std::string* parts, std::size_t count) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < count; ++i) width += parts[i].size();
  return width;
}

void align(std::vector<std::string>& parts, std::size_t count) {
  std::size_t widest = 0;
  for (std::size_t i = 0; i < parts.size(); i += count)
    widest = std::max(widest, width_of(&parts[i], count));
  for (std::size_t i = 0; i < parts.size(); i += count)
    parts[i + count - 1].append(widest - width_of(&parts[i], count), ' ');
}

// Puts `color` around a label, inside the spaces that follow it.
void colorize(std::string* parts, std::size_t count, std::string_view color) {
  parts[0].insert(0, color);
  std::string& last = parts[count - 1];
  const std::size_t end = last.find_last_not_of(' ');
  last.insert(end == std::string::npos ? last.size() : end + 1, kColorEnd);
}

}  // namespace

Result<LabelTemplate> parse_label(std::string_view text) {
  LabelTemplate label;
  if (text == "none") return label;
  label.aligned = text == "rank" || text == "rank@host";
  if (text == "rank") text = "[{rank}] ";
  if (text == "rank@host") text = "[{rank}@{host}] ";
  HVD_TRY(label.pieces, parse_pieces(text));
  return label;
}

std::string_view default_label(int size) {
  return size > 1 ? "rank" : "none";
}

std::string_view TimeText::of(OutputTime time) {
  using std::chrono::milliseconds;
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  if (since == shown_) return {text_, length_};
  shown_ = since;
  const auto second =
      static_cast<std::time_t>(std::chrono::floor<std::chrono::seconds>(since).count());
  if (second != second_) {
    second_ = second;
    std::tm parts{};
    ::localtime_r(&second, &parts);
    length_ = std::strftime(text_, sizeof text_ - 4, "%Y-%m-%dT%H:%M:%S", &parts);
    length_ += 4;
  }
  const auto ms =
      static_cast<int>((since - std::chrono::floor<std::chrono::seconds>(since)).count());
  char* fraction = text_ + length_ - 4;
  fraction[0] = '.';
  fraction[1] = static_cast<char>('0' + ms / 100);
  fraction[2] = static_cast<char>('0' + ms / 10 % 10);
  fraction[3] = static_cast<char>('0' + ms % 10);
  return {text_, length_};
}

Labels::Labels(const LabelTemplate& label, const Placement& placement, Options options)
    : label_(label), size_(placement.size), options_(options) {
  times_ = pieces_per_label() - 1 + (options.timestamps ? 1 : 0);
  const std::size_t count = pieces_per_label();
  std::vector<std::pair<const HostPlacement*, const RankPlacement*>> ranks(
      static_cast<std::size_t>(placement.size));
  for (const HostPlacement& host : placement.hosts)
    for (const RankPlacement& rank : host.ranks)
      ranks[static_cast<std::size_t>(rank.rank)] = {&host, &rank};
  for (const auto& [host, rank] : ranks) append(parts_, host->host, *rank);
  if (label.aligned) align(parts_, count);
  names_several_ = label.aligned && label.pieces.size() == 3 &&
                   label.pieces[1].field == LabelField::rank && label.pieces[2].text == "] ";
  if (!parts_.empty()) width_ = width_of(parts_.data(), count);
  finish(parts_, 0);
}

std::size_t Labels::pieces_per_label() const {
  return 1 + static_cast<std::size_t>(
                 std::count_if(label_.pieces.begin(), label_.pieces.end(),
                               [](const auto& piece) { return piece.field == LabelField::time; }));
}

void Labels::append(Parts& parts, const std::string& host, const RankPlacement& rank) const {
  for (const Stream stream : {Stream::out, Stream::err}) {
    parts.emplace_back();
    for (const LabelPiece& piece : label_.pieces) {
      if (piece.field == LabelField::time)
        parts.emplace_back();
      else
        parts.back() +=
            piece.field ? field_text(*piece.field, size_, host, rank, stream) : piece.text;
    }
  }
}

void Labels::finish(Parts& parts, std::size_t first_rank) const {
  const std::size_t count = pieces_per_label();
  if (options_.color != Color::off && !label_.pieces.empty())
    for (std::size_t i = 0; i < parts.size(); i += count)
      colorize(
          &parts[i], count,
          label_color(static_cast<int>(first_rank + i / count / 2), options_.color == Color::many));
  if (!options_.timestamps) return;

  // Adds the timestamp as one more time, at the beginning.
  Parts stamped;
  stamped.reserve(parts.size() / count * (count + 1));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % count == 0) stamped.emplace_back();
    stamped.push_back(i % count == 0 ? " " + parts[i] : std::move(parts[i]));
  }
  parts = std::move(stamped);
}

void Labels::add(const std::string& host, const RankPlacement& rank) {
  const std::size_t count = pieces_per_label();
  Parts parts;
  append(parts, host, rank);
  for (std::size_t i = 0; label_.aligned && i < parts.size(); i += count)
    if (const auto width = width_of(&parts[i], count); width < width_)
      parts[i + count - 1].append(width_ - width, ' ');
  finish(parts, static_cast<std::size_t>(rank.rank));
  std::move(parts.begin(), parts.end(), std::back_inserter(parts_));
}

std::string_view Labels::of_several(std::string_view ranks, OutputTime time) {
  made_.clear();
  if (options_.timestamps) made_.append(time_text_.of(time)).append(" ");
  const auto begin = made_.size();
  made_.append("[").append(ranks).append("] ");
  if (made_.size() - begin < width_) made_.append(width_ - (made_.size() - begin), ' ');
  return made_;
}

std::string_view Labels::of(int rank, Stream stream, OutputTime time) {
  const std::string* part = &parts_[slot(rank, stream) * (times_ + 1)];
  if (times_ == 0) return *part;
  const std::string_view now = time_text_.of(time);
  made_ = part[0];
  for (std::size_t i = 1; i <= times_; ++i) {
    made_ += now;
    made_ += part[i];
  }
  return made_;
}

}  // namespace hvdrun
