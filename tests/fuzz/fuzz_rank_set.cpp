// Parses any bytes as a set of ranks. An accepted set must print in a form that parses to the same
// set.
#include "expect.hpp"
#include "model/rank_set.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto set = hvdrun::RankSet::parse(text);
  if (!set) {
    FUZZ_EXPECT(!set.error().message.empty());
    return 0;
  }
  FUZZ_EXPECT(!set->empty());
  FUZZ_EXPECT(set->contains(set->highest()));
  const auto shortest = set->to_string();
  const auto again = hvdrun::RankSet::parse(shortest);
  FUZZ_EXPECT(again && again->to_string() == shortest);
  return 0;
}
