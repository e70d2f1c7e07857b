// --label: the text before each line, as a template and as the bytes made from it for each rank.
// Plain values; loop thread only.
#pragma once

#include "base/result.hpp"
#include "model/placement.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

enum class LabelField { rank, host, local_rank, size, time, stream };

// A field, or literal text if it has none.
struct LabelPiece {
  std::string text;
  std::optional<LabelField> field;
};

struct LabelTemplate {
  std::vector<LabelPiece> pieces;  // empty: no label
  // Whether spaces follow the label up to the width of the job's longest, so that texts align. On
  // for the built-in forms. They never change "[3]" itself, which people grep for.
  bool aligned = false;
};

// Reads "none", "rank" ("[3] "), "rank@host" ("[3@n1] "), or any text with {rank}, {host},
// {local_rank}, {size}, {time} (see TimeText) and {stream} ("stdout", "stderr"); "{{" and "}}" are
// braces. Error (kExitUsage): an unknown or unfinished {name}, or a newline in the text.
Result<LabelTemplate> parse_label(std::string_view text);

// Returns the label of a job without --label: "rank", or "none" for a single rank.
std::string_view default_label(int size);

// Local time as ISO 8601 with milliseconds: "2026-11-21T01:02:03.123". Keeps the last text, because
// many lines in a row have the same time.
class TimeText {
 public:
  std::string_view of(OutputTime time);

 private:
  std::chrono::milliseconds shown_{-1};
  std::time_t second_ = -1;
  char text_[32] = {};
  std::size_t length_ = 0;
};

// The labels of all ranks for one place where lines are shown. They are made at the start; only
// times are added later.
class Labels {
 public:
  enum class Color { off, few, many };
  struct Options {
    bool timestamps = false;  // "TIME " before the label
    Color color = Color::off;
  };

  Labels(const LabelTemplate& label, const Placement& placement, Options options);

  // Adds the labels of one more rank, with the next number.
  void add(const std::string& host, const RankPlacement& rank);

  // Returns the label of a line that began at `time`. Valid until the next call.
  std::string_view of(int rank, Stream stream, OutputTime time);

  // Returns whether lines of several ranks can share a label: it is "[{rank}] ", as by default.
  bool can_name_several() const { return names_several_; }

  // Returns the label of a line that several ranks printed. `ranks` is "0-3,7".
  std::string_view of_several(std::string_view ranks, OutputTime time);

 private:
  using Parts = std::vector<std::string>;

  // Appends the labels of a rank's two streams, without color and timestamp.
  void append(Parts& parts, const std::string& host, const RankPlacement& rank) const;
  // Adds colors and timestamps to labels, the first of which is that of this rank.
  void finish(Parts& parts, std::size_t first_rank) const;
  std::size_t pieces_per_label() const;

  LabelTemplate label_;
  int size_;
  Options options_;
  // Labels, cut at their times: times_ + 1 parts for each rank and stream, in order.
  Parts parts_;
  std::size_t times_ = 0;
  bool names_several_ = false;
  std::size_t width_ = 0;  // of an aligned label
  TimeText time_text_;
  std::string made_;
};

}  // namespace hvdrun
