// Collectives on more bytes than fit into 31 bits.
#include "reporting.hpp"

#include <cstdint>
#include <memory>

namespace libhvd::test {
namespace {

constexpr std::size_t kHuge = (std::size_t{1} << 31) + 1;

// Returns a byte of a rank's input. Neighbouring gigabytes differ.
std::uint8_t byte_of(int rank, std::size_t i) {
  return static_cast<std::uint8_t>(i * 7 + (i >> 20) * 13 + static_cast<std::size_t>(rank) * 3);
}

void fill(std::uint8_t* to, int rank) {
  for (std::size_t i = 0; i < kHuge; ++i) to[i] = byte_of(rank, i);
}

template <class Expected>
std::string compare(const std::uint8_t* got, const Expected& expected) {
  for (std::size_t i = 0; i < kHuge; ++i) {
    if (got[i] != expected(i)) return "wrong at " + std::to_string(i);
  }
  return "ok";
}

std::string add(std::uint8_t* bytes) {
  fill(bytes, hvd::rank());
  const hvd_status status = hvd_allreduce(bytes, bytes, kHuge, HVD_UINT8, HVD_SUM, nullptr);
  if (status != HVD_OK) return code_and_text_of(status);
  return compare(bytes, [](std::size_t i) {
    return static_cast<std::uint8_t>(byte_of(0, i) + byte_of(1, i));
  });
}

std::string send_from_1(std::uint8_t* bytes) {
  fill(bytes, hvd::rank());
  const hvd_status status = hvd_broadcast(bytes, kHuge, HVD_UINT8, 1, nullptr);
  if (status != HVD_OK) return code_and_text_of(status);
  return compare(bytes, [](std::size_t i) { return byte_of(1, i); });
}

// All rows but the last are rank 0's.
std::string gather(std::uint8_t* bytes) {
  const std::uint8_t own = 77;
  const bool first = hvd::rank() == 0;
  const auto room = std::make_unique_for_overwrite<std::uint8_t[]>(kHuge + 1);
  if (first) fill(bytes, 0);
  const hvd_status status = hvd_allgather(first ? bytes : &own, first ? kHuge : 1, 1, HVD_UINT8,
                                          room.get(), kHuge + 1, nullptr, nullptr);
  if (status != HVD_OK) return code_and_text_of(status);
  if (room[kHuge] != own) return "wrong last row";
  return compare(room.get(), [](std::size_t i) { return byte_of(0, i); });
}

// Runs the body on two ranks, with a buffer of kHuge bytes.
void run_huge(std::string (*body)(std::uint8_t* bytes)) {
  Job job(2, reporting([body] {
            hvd::init();
            const auto bytes = std::make_unique_for_overwrite<std::uint8_t[]>(kHuge);
            std::string text = body(bytes.get());
            hvd::shutdown();
            return text;
          }));
  expect_from_all(job, "ok");
}

TEST(Huge, AllreduceOf2GiBAndOneByte) {
  run_huge(add);
}

TEST(Huge, BroadcastOf2GiBAndOneByte) {
  run_huge(send_from_1);
}

TEST(Huge, AllgatherOf2GiBAndOneByte) {
  run_huge(gather);
}

}  // namespace
}  // namespace libhvd::test
