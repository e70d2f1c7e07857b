#include "common/crc32c.hpp"

#include "common/processor.hpp"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace common {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // 0x1EDC6F41, bits reversed

using Table = std::array<std::uint32_t, 256>;

// slices[k][b]: how byte b changes the checksum if k more bytes follow it.
constexpr std::array<Table, 8> make_slices() {
  std::array<Table, 8> slices{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    slices[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = slices[slice - 1][byte];
      slices[slice][byte] = (before >> 8) ^ slices[0][before & 0xff];
    }
  }
  return slices;
}

constexpr std::array<Table, 8> kSlices = make_slices();

constexpr std::uint32_t step_byte(std::uint32_t state, std::uint32_t byte) {
  return (state >> 8) ^ kSlices[0][(state ^ byte) & 0xff];
}

std::uint32_t update_by_table(std::uint32_t state, const unsigned char* data, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, data += 8) {
    const std::uint32_t first =
        state ^ (data[0] | std::uint32_t{data[1]} << 8 | std::uint32_t{data[2]} << 16 |
                 std::uint32_t{data[3]} << 24);
    state = kSlices[7][first & 0xff] ^ kSlices[6][(first >> 8) & 0xff] ^
            kSlices[5][(first >> 16) & 0xff] ^ kSlices[4][first >> 24] ^ kSlices[3][data[4]] ^
            kSlices[2][data[5]] ^ kSlices[1][data[6]] ^ kSlices[0][data[7]];
  }
  for (; bytes > 0; --bytes, ++data) state = step_byte(state, *data);
  return state;
}

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define HVD_CRC_TARGET __attribute__((target("sse4.2,crc32")))
bool has_instruction() {
  return has_sse42();
}
HVD_CRC_TARGET std::uint32_t step_word(std::uint32_t state, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(state, word));
}
#else
#define HVD_CRC_TARGET __attribute__((target("+crc")))
bool has_instruction() {
  return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
HVD_CRC_TARGET std::uint32_t step_word(std::uint32_t state, std::uint64_t word) {
  return __crc32cd(state, word);
}
#endif

std::uint64_t word_at(const unsigned char* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// The instruction takes three cycles, but a new one can begin in each cycle. So three lanes of this
// many bytes are computed at the same time.
constexpr std::size_t kLane = 4096;

// shift[k][b]: what byte k of a checksum with the value b becomes if kLane zero bytes follow.
constexpr std::array<Table, 4> make_shift() {
  std::array<std::uint32_t, 32> bits{};
  for (std::size_t bit = 0; bit < 32; ++bit) bits[bit] = step_byte(std::uint32_t{1} << bit, 0);
  // Doubling: the operator for 2n zero bytes is that for n, applied to its own columns.
  const auto apply = [](const std::array<std::uint32_t, 32>& matrix, std::uint32_t value) {
    std::uint32_t sum = 0;
    for (std::size_t bit = 0; bit < 32; ++bit) sum ^= ((value >> bit) & 1) != 0 ? matrix[bit] : 0;
    return sum;
  };
  for (std::size_t length = 1; length < kLane; length *= 2) {
    std::array<std::uint32_t, 32> twice{};
    for (std::size_t bit = 0; bit < 32; ++bit) twice[bit] = apply(bits, bits[bit]);
    bits = twice;
  }
  std::array<Table, 4> shift{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    for (std::uint32_t place = 0; place < 4; ++place) {
      shift[place][byte] = apply(bits, byte << (8 * place));
    }
  }
  return shift;
}

constexpr std::array<Table, 4> kShift = make_shift();
static_assert((kLane & (kLane - 1)) == 0, "make_shift doubles");

std::uint32_t shift_by_lane(std::uint32_t state) {
  return kShift[0][state & 0xff] ^ kShift[1][(state >> 8) & 0xff] ^
         kShift[2][(state >> 16) & 0xff] ^ kShift[3][state >> 24];
}

HVD_CRC_TARGET std::uint32_t update_by_instruction(std::uint32_t state, const unsigned char* data,
                                                   std::size_t bytes) {
  for (; bytes >= 3 * kLane; bytes -= 3 * kLane, data += 3 * kLane) {
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (std::size_t at = 0; at < kLane; at += 8) {
      state = step_word(state, word_at(data + at));
      second = step_word(second, word_at(data + kLane + at));
      third = step_word(third, word_at(data + 2 * kLane + at));
    }
    state = shift_by_lane(shift_by_lane(state) ^ second) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, data += 8) state = step_word(state, word_at(data));
  return update_by_table(state, data, bytes);
}

#else

bool has_instruction() {
  return false;
}
std::uint32_t update_by_instruction(std::uint32_t state, const unsigned char* data,
                                    std::size_t bytes) {
  return update_by_table(state, data, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc_so_far, const void* data, std::size_t bytes) {
  static const bool by_instruction = has_instruction();
  if (!by_instruction) return crc32c_by_table(crc_so_far, data, bytes);
  return ~update_by_instruction(~crc_so_far, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t crc32c_by_table(std::uint32_t crc_so_far, const void* data, std::size_t bytes) {
  return ~update_by_table(~crc_so_far, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace common
