// Items of a state: which ones are valid, and how two states differ.
#include "checkpoint/item.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::checkpoint {
namespace {

std::byte some_data[64];

Item make_item(std::string name, hvd_item_type type, std::vector<std::int64_t> shape,
               std::uint64_t bytes) {
  Item item;
  item.description = {std::move(name), type, std::move(shape), bytes};
  item.data = some_data;
  return item;
}

TEST(Items, EveryTypeHasASize) {
  for (const auto& [type, size] :
       std::vector<std::pair<hvd_item_type, std::size_t>>{{HVD_UINT8, 1},
                                                          {HVD_INT8, 1},
                                                          {HVD_UINT16, 2},
                                                          {HVD_INT16, 2},
                                                          {HVD_INT32, 4},
                                                          {HVD_INT64, 8},
                                                          {HVD_FLOAT16, 2},
                                                          {HVD_FLOAT32, 4},
                                                          {HVD_FLOAT64, 8},
                                                          {HVD_BOOL, 1},
                                                          {HVD_BFLOAT16, 2},
                                                          {HVD_ITEM_BYTES, 1},
                                                          {HVD_ITEM_UINT32, 4},
                                                          {HVD_ITEM_UINT64, 8},
                                                          {HVD_ITEM_COMPLEX64, 8},
                                                          {HVD_ITEM_COMPLEX128, 16}}) {
    EXPECT_EQ(item_element_size(type), size) << type;
  }
  EXPECT_EQ(item_element_size(-1), 0u);
  EXPECT_EQ(item_element_size(63), 0u);
}

TEST(Items, InvalidItemsAreRefusedWithTheReason) {
  struct Row {
    Item item;
    const char* says;
  };
  Item no_data = make_item("w", HVD_FLOAT32, {2}, 8);
  no_data.data = nullptr;
  const std::int64_t huge = std::int64_t{1} << 62;
  const std::vector<Row> table{
      {make_item("w", HVD_FLOAT32, {2, 3}, 24), ""},
      {make_item("scalar", HVD_INT64, {}, 8), ""},
      {make_item("empty", HVD_FLOAT32, {3, 0}, 0), ""},
      {make_item("text", HVD_ITEM_BYTES, {}, 5), ""},
      {make_item(std::string(kLongestName, 'x'), HVD_INT8, {}, 1), ""},
      {make_item("", HVD_FLOAT32, {2}, 8), "no name"},
      {make_item(std::string(kLongestName + 1, 'x'), HVD_INT8, {}, 1), "at most 65535"},
      {make_item("w", 63, {2}, 8), "there is no type 63"},
      {make_item("w", HVD_FLOAT32, {-1}, 8), "cannot be"},
      {make_item("w", HVD_FLOAT32, {huge, huge}, 8), "cannot be"},
      {make_item("w", HVD_FLOAT32, {huge, 0, huge}, 0), ""},
      {make_item("w", HVD_FLOAT32, {2}, 12), "has 8 bytes, and the data 12"},
      {make_item("w", HVD_FLOAT32, std::vector<std::int64_t>(65, 1), 4), "65 dimensions"},
      {make_item("t", HVD_ITEM_BYTES, {5}, 5), "bytes have no dimensions"},
      {no_data, "data is null"},
  };
  for (const Row& row : table) {
    const std::string fault = find_fault(std::span(&row.item, 1));
    if (*row.says == '\0') {
      EXPECT_EQ(fault, "");
    } else {
      EXPECT_NE(fault.find(row.says), std::string::npos) << fault;
    }
  }
  const std::vector<Item> twice{make_item("w", HVD_INT8, {}, 1), make_item("w", HVD_INT8, {}, 1)};
  EXPECT_EQ(find_fault(twice), "two items are called \"w\"");
}

TEST(Items, DifferencesAreListedByName) {
  const std::vector<Description> mine{
      {"a", HVD_FLOAT32, {2, 3}, 24}, {"b", HVD_INT64, {}, 8}, {"c", HVD_ITEM_BYTES, {}, 5}};
  EXPECT_EQ(find_differences(mine, mine), "");
  const std::vector<Description> reordered{mine[2], mine[0], mine[1]};
  EXPECT_EQ(find_differences(mine, reordered), "");
  std::vector<Description> longer = mine;
  longer[2].bytes = 6;
  EXPECT_EQ(find_differences(mine, longer), "");
  EXPECT_EQ(find_differences(mine, longer, true), "\"c\" is 6 bytes and not 5 bytes");
  const std::vector<Description> theirs{
      {"a", HVD_FLOAT32, {3, 2}, 24}, {"c", HVD_INT64, {}, 8}, {"d\n", HVD_BOOL, {1}, 1}};
  EXPECT_EQ(find_differences(mine, theirs),
            "missing: \"b\" (int64 []); not expected: \"d\\x0a\" (bool [1]); "
            "\"a\" is float32 [3, 2] and not float32 [2, 3], \"c\" is int64 [] and not 5 bytes");
  std::vector<Description> many;
  for (int i = 0; i < 20; ++i) many.push_back({"x" + std::to_string(i), HVD_INT8, {}, 1});
  EXPECT_NE(find_differences({}, many).find("and 12 more"), std::string::npos);
}

TEST(Items, LongNamesAreShortenedInMessages) {
  EXPECT_LT(quote_name(std::string(5000, 'x')).size(), 120u);
}

TEST(Items, FingerprintsDifferForDifferentStates) {
  const std::vector<Description> a{{"a", HVD_FLOAT32, {2}, 8}, {"b", HVD_ITEM_BYTES, {}, 8}};
  std::vector<Description> b = a;
  b[1].bytes = 9;
  EXPECT_EQ(fingerprint(a, false), fingerprint(b, false));
  EXPECT_NE(fingerprint(a, true), fingerprint(b, true));
  std::vector<Description> c = a;
  c[0].shape = {1, 2};
  EXPECT_NE(fingerprint(a, false), fingerprint(c, false));
}

}  // namespace
}  // namespace libhvd::checkpoint
