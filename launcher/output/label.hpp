// --label: what stands before each line, as a template and as the bytes made from it.
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

// Literal text, or a field when there is one.
struct LabelPiece {
  std::string text;
  std::optional<LabelField> field;
};

struct LabelTemplate {
  std::vector<LabelPiece> pieces;  // empty: no label
  // Spaces follow the label up to the width of the job's longest, so that texts align. On for the
  // built-in forms; "[3]" itself stays as it is, for grep.
  bool aligned = false;
};

// "none", "rank" ("[3] "), "rank@host" ("[3@n1] "), or any text with {rank}, {host}, {local_rank},
// {size}, {time} (as timestamps, below) and {stream} ("stdout", "stderr"); "{{" and "}}" stand for
// braces. Error (kExitUsage): an unknown or unfinished {name}, a newline in the text.
Result<LabelTemplate> parse_label(std::string_view text);

// The label of a job whose --label was not given: "rank", and "none" for a single rank.
std::string_view default_label(int size);

// Local time as ISO 8601 with milliseconds: "2026-11-21T01:02:03.123". Keeps the last one made:
// lines come in runs of the same moment.
class TimeText {
 public:
  std::string_view of(OutputTime time);

 private:
  std::chrono::milliseconds shown_{-1};
  std::time_t second_ = -1;
  char text_[32] = {};
  std::size_t length_ = 0;
};

// The labels of all ranks for one place where lines are shown, made beforehand; only times are put
// in later.
class Labels {
 public:
  enum class Color { off, few, many };
  struct Options {
    bool timestamps = false;  // "TIME " before the label
    Color color = Color::off;
  };

  Labels(const LabelTemplate& label, const Placement& placement, Options options);

  // The bytes before a line that began at `time`. Valid until the next call.
  std::string_view of(int rank, Stream stream, OutputTime time);

 private:
  // A label is cut where times stand: times_ + 1 parts a rank and stream, one after the other.
  std::vector<std::string> parts_;
  std::size_t times_ = 0;
  TimeText time_text_;
  std::string made_;
};

}  // namespace hvdrun
