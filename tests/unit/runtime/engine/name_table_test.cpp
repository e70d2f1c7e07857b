#include "engine/name_table.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Returns a name that often collides: few home positions, some of them at the end of the table, so
// that the search wraps around.
std::uint64_t draw_name(std::mt19937& random) {
  const std::uint64_t home = random() % 4 + (random() % 2 == 0 ? 0 : 1020);
  return (std::uint64_t{random() % 40 + 1} << 10) | home;
}

TEST(NameTable, BehavesLikeAMap) {
  std::mt19937 random(1);
  NameTable table;
  std::map<std::uint64_t, NameTable::Value> map;
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t name = draw_name(random);
    const bool known = map.contains(name);
    ASSERT_EQ(table.find(name), known ? map[name] : NameTable::kNone) << "step " << step;
    // The table grows and shrinks in turn.
    if (random() % 3 < (step / 1000 % 2 == 0 ? 1u : 2u)) {
      table.erase(name);
      map.erase(name);
    } else {
      NameTable::Value& value = table.at(name);
      ASSERT_EQ(value, known ? map[name] : NameTable::kNone) << "step " << step;
      value = map[name] = static_cast<NameTable::Value>(step);
    }
  }
  for (const auto& [name, value] : map) EXPECT_EQ(table.find(name), value);
}

}  // namespace
}  // namespace libhvd
