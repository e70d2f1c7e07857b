// Parses any bytes as what NCCL's RAS answers, which may be any program at its port.
#include "expect.hpp"
#include "hang/nccl_waits.hpp"
#include "look/nccl_answer.hpp"
#include "look/nccl_ras.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

using namespace hvdrun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  nccl_address(text);
  parse_nccl(text);
  const auto found = parse_nccl_answer(text);
  if (!found) return 0;
  const auto line = nccl_json(*found);
  FUZZ_EXPECT(line.find('\n') == std::string::npos);
  const auto again = parse_nccl(line);
  FUZZ_EXPECT(again && nccl_json(*again) == line);
  const auto facts = find_nccl_waits(*found, {{"", {{1, 0}, {2, 1}, {12, 2}}}});
  for (const auto& wait : facts.waits)
    FUZZ_EXPECT(!wait.missing.empty() && !wait.waiting.empty() && !wait.collective.empty());
  return 0;
}
