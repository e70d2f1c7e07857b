// NaN, infinity and overflow in 16-bit floats.
#include "reporting.hpp"

#include <cstdint>
#include <vector>

namespace libhvd::test {
namespace {

// The inputs of ranks 0 and 1, and the result, as bits of the type (IEEE 754-2019, section 6).
// "nan" is any NaN.
struct Case {
  std::uint16_t first;
  std::uint16_t second;
  hvd_op op;
  std::uint16_t result;
};

struct Format {
  const char* name;
  hvd_type type;
  std::uint16_t infinity;
  std::uint16_t nan;
  std::uint16_t largest;
  std::uint16_t one;
  std::uint16_t two;
  std::uint16_t smallest;            // positive number
  std::uint16_t average_of_largest;  // infinite if their sum exceeds float32
};

constexpr std::uint16_t kMinus = 0x8000;

constexpr Format kFormats[] = {
    {"float16", HVD_FLOAT16, 0x7c00, 0x7e00, 0x7bff, 0x3c00, 0x4000, 0x0001, 0x7bff},
    {"bfloat16", HVD_BFLOAT16, 0x7f80, 0x7fc0, 0x7f7f, 0x3f80, 0x4000, 0x0001, 0x7f80},
};

std::uint16_t minus(std::uint16_t bits) {
  return bits ^ kMinus;
}

std::vector<Case> cases_of(const Format& f) {
  return {
      {f.nan, f.one, HVD_SUM, f.nan},
      {f.one, f.nan, HVD_MIN, f.nan},
      {f.nan, f.one, HVD_MAX, f.nan},
      {f.one, f.nan, HVD_PRODUCT, f.nan},
      {f.nan, f.infinity, HVD_AVERAGE, f.nan},
      {f.infinity, f.one, HVD_SUM, f.infinity},
      {f.one, minus(f.infinity), HVD_SUM, minus(f.infinity)},
      {f.infinity, minus(f.infinity), HVD_SUM, f.nan},
      {f.infinity, f.infinity, HVD_AVERAGE, f.infinity},
      {f.infinity, f.one, HVD_MIN, f.one},
      {minus(f.infinity), f.one, HVD_MAX, f.one},
      {f.infinity, 0, HVD_PRODUCT, f.nan},
      {f.infinity, minus(f.one), HVD_PRODUCT, minus(f.infinity)},
      {f.largest, f.largest, HVD_SUM, f.infinity},
      {f.largest, f.largest, HVD_AVERAGE, f.average_of_largest},
      {minus(f.largest), minus(f.largest), HVD_SUM, minus(f.infinity)},
      {f.largest, f.two, HVD_PRODUCT, f.infinity},
      {f.smallest, 0, HVD_SUM, f.smallest},
      {f.smallest, minus(f.smallest), HVD_SUM, 0},
      {f.one, f.one, HVD_SUM, f.two},
  };
}

bool is_nan(const Format& f, std::uint16_t bits) {
  return (bits & ~kMinus) > f.infinity;
}

// Reduces one case in each of `count` elements, because the kernels handle several at a time.
std::string reduce_case(const Format& f, const Case& given, std::size_t count) {
  std::vector<std::uint16_t> values(count, hvd::rank() == 0 ? given.first : given.second);
  const hvd_status status =
      hvd_allreduce(values.data(), values.data(), count, f.type, given.op, nullptr);
  if (status != HVD_OK) return code_and_text_of(status);
  for (const std::uint16_t value : values) {
    const bool right = is_nan(f, given.result) ? is_nan(f, value) : value == given.result;
    if (!right) return "gives " + std::to_string(value);
  }
  return "ok";
}

TEST(SixteenBitFloats, FollowIeee754ForNanInfinityAndOverflow) {
  Job job(2, reporting([] {
            hvd::init();
            std::string text;
            for (const Format& format : kFormats) {
              const std::vector<Case> cases = cases_of(format);
              for (std::size_t i = 0; i < cases.size(); ++i) {
                for (const std::size_t count : {1u, 7u, 33u, 3000u, 70'001u}) {
                  const std::string got = reduce_case(format, cases[i], count);
                  if (got != "ok")
                    text += std::string(format.name) + " case " + std::to_string(i) + " of " +
                            std::to_string(count) + " " + got + "; ";
                }
              }
            }
            hvd::shutdown();
            return text.empty() ? "ok" : text;
          }));
  expect_from_all(job, "ok");
}

}  // namespace
}  // namespace libhvd::test
