// Parses any bytes, in pieces, as the output of srun and its tasks.
#include "channels/srun_failure.hpp"
#include "channels/srun_output.hpp"
#include "expect.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

using namespace hvdrun;

// The first byte sets the size of the pieces in which the others arrive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] + 1u;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  SrunReader reader;
  std::vector<SrunLine> lines;
  const auto take = [&](std::vector<SrunLine> more) {
    for (auto& line : more) lines.push_back(std::move(line));
  };
  for (std::size_t at = 0; at < text.size(); at += piece) take(reader.feed(text.substr(at, piece)));
  take(reader.finish());
  std::vector<SrunTaskEnd> ends;
  for (const auto& line : lines) {
    if (line.task) continue;
    auto end = parse_task_end(line.text);
    // More tasks would only take more time: the explanation handles each of them.
    if (end && end->tasks.size() <= 64 && ends.size() < 16) ends.push_back(std::move(*end));
  }
  for (const auto& failure : explain_task_ends(ends, lines, "/opt/hvdrun"))
    FUZZ_EXPECT(!failure.hosts.empty() && !failure.message.empty());
  FUZZ_EXPECT(!explain_srun_failure(0x100, lines).message.empty());
  FUZZ_EXPECT(!explain_srun_waiting(lines).empty());
  return 0;
}
