// The lines of `hvdrun logs`, from the chunks of bytes that a job has kept. A plain value; any
// bytes are accepted.
#pragma once

#include "control/control_message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

struct LogChunk {
  std::uint64_t number = 0;
  std::uint64_t follows = 0;  // the chunk of its rank and stream before it; 0: none
  int rank = 0;
  bool is_stderr = false;
  bool begins_line = false;
  std::string bytes;
};

// Reads the answer to the word "logs". What is malformed is left out.
std::vector<LogChunk> log_chunks_from(const ControlJson& answer);

struct LogLine {
  int rank = 0;
  std::string text;  // without its newline; of one that overwrote itself with "\r" the last text
};

class LogLines {
 public:
  // Returns the lines that end in this chunk. A line of which a part is not known, because hvdrun
  // no longer had it, is left out.
  std::vector<LogLine> add(const LogChunk& chunk);

  // Returns the lines that have begun and not ended, by rank.
  std::vector<LogLine> unfinished() const;

 private:
  struct Begun {
    std::uint64_t last = 0;           // chunk
    std::optional<std::string> line;  // nullopt: its beginning is not known
  };
  std::map<std::pair<int, bool>, Begun> begun_;  // by rank and stream
};

// Returns the last `most` lines of each rank, in their order.
std::vector<LogLine> last_of_each(std::vector<LogLine> lines, std::size_t most);

// Returns "[ 3] text"; with one rank only the text.
std::string labelled(const LogLine& line, int ranks);

}  // namespace hvdrun
