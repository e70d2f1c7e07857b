// Writes the output of ranks to a console. The input says which rank writes which bytes, and when
// time passes. Every shown line must have one label. The text after a rank's labels must be what
// the rank wrote: line by line, or if timeouts expire, byte by byte without newlines.
#include "expect.hpp"
#include "output/console.hpp"
#include "tests/unit/output/line_model.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace hvdrun;

constexpr int kRanks = 4;
constexpr std::string_view kNote = "hvdrun: note";

// Reads the input from its front.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  unsigned byte() {
    const auto taken = bytes(1);
    return taken.empty() ? 0 : static_cast<unsigned char>(taken[0]);
  }
  std::string_view bytes(std::size_t count) {
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

struct Mode {
  bool returns;   // the bytes may have "\r"
  bool time;      // time passes
  bool terminal;  // a terminal, which can redraw lines
};

std::size_t stream_index(int rank, Stream stream) {
  return static_cast<std::size_t>(rank) * 2 + (stream == Stream::err ? 1 : 0);
}

std::string label(std::size_t index) {
  return "<" + std::to_string(index / 2) + (index % 2 == 0 ? "stdout> " : "stderr> ");
}

Placement placement() {
  Placement placement;
  placement.size = kRanks;
  placement.hosts.resize(1);
  for (int rank = 0; rank < kRanks; ++rank) {
    RankPlacement& placed = placement.hosts[0].ranks.emplace_back();
    placed.rank = placed.local_rank = rank;
  }
  return placement;
}

// Returns the lines that the console must show for a stream if no timeout expires.
std::string expected_lines(std::string_view bytes) {
  std::string shown;
  for (const auto& line : LineModel::lines(bytes)) shown += line;
  return shown;
}

// Splits the output by label.
std::vector<std::string> shown_by_stream(std::string_view screen) {
  std::vector<std::string> shown(kRanks * 2);
  while (!screen.empty()) {
    const std::size_t end = screen.find('\n');
    FUZZ_EXPECT(end != std::string_view::npos);
    const std::string_view line = screen.substr(0, end + 1);
    screen.remove_prefix(end + 1);
    bool known = line.substr(0, end) == kNote;
    for (std::size_t index = 0; index < shown.size() && !known; ++index) {
      const std::string own = label(index);
      known = line.substr(0, own.size()) == own;
      if (known) shown[index] += line.substr(own.size());
    }
    FUZZ_EXPECT(known);
  }
  return shown;
}

std::string without_newlines(std::string text) {
  std::erase(text, '\n');
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  static constexpr Mode kModes[] = {{true, false, false},
                                    {false, true, false},
                                    {false, true, true},
                                    {true, true, true},
                                    {true, true, false}};
  const Mode mode = kModes[input.byte() % std::size(kModes)];

  ByteQueue queue;
  Console::Place place{&queue, {}, {}};
  if (mode.terminal) place.columns = [] { return 40; };
  OutputSpec spec;
  spec.label = "<{rank}{stream}> ";
  const auto console = Console::make(spec, place, {});
  FUZZ_EXPECT(console);
  (*console)->begin(placement());

  std::vector<std::string> written(kRanks * 2);
  Console::Steady now{std::chrono::hours(1)};
  while (!input.empty()) {
    const unsigned what = input.byte();
    if (what % 16 == 15) {
      (*console)->note(kNote);
      continue;
    }
    if (what % 16 >= 12) {
      if (mode.time) now += std::chrono::milliseconds(input.byte());
      if (mode.time) (*console)->tick(now, what % 16 == 14);
      continue;
    }
    const int rank = static_cast<int>(what / 16 % kRanks);
    const Stream stream = what / 64 % 2 == 0 ? Stream::out : Stream::err;
    std::string piece(input.bytes(input.byte()));
    if (!mode.returns) std::replace(piece.begin(), piece.end(), '\r', '.');
    (*console)->write(rank, stream, piece, {}, now);
    written[stream_index(rank, stream)] += piece;
  }
  for (int rank = 0; rank < kRanks; ++rank)
    for (const Stream stream : {Stream::out, Stream::err}) (*console)->close(rank, stream);

  const std::string_view screen = queue.view();
  if (mode.terminal && mode.time) {
    // Redrawn lines are not compared, but the output must end properly.
    FUZZ_EXPECT(screen.empty() || screen.back() == '\n' || screen.ends_with("\x1b[K"));
    if (mode.returns) return 0;
  }
  const auto shown = shown_by_stream(screen);
  for (std::size_t index = 0; index < shown.size(); ++index) {
    if (!mode.time)
      FUZZ_EXPECT(shown[index] == expected_lines(written[index]));
    else if (!mode.returns)
      FUZZ_EXPECT(without_newlines(shown[index]) == without_newlines(written[index]));
  }
  return 0;
}
