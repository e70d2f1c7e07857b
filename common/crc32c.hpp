// CRC-32C, the Castagnoli checksum of RFC 3720 (iSCSI), appendix B.4: polynomial 0x1EDC6F41,
// reflected, initial value and final exclusive-or all ones. With the CPU's instruction for it
// (SSE 4.2, ARMv8 CRC) it runs at memory speed; elsewhere from tables, at 1 to 2 GB/s.
#pragma once

#include <cstddef>
#include <cstdint>

namespace common {

// The checksum of what `crc_so_far` is the checksum of (0: of nothing), followed by these bytes.
// crc32c(0, "123456789", 9) is 0xe3069283. Any thread; data may be unaligned, or null with 0 bytes.
std::uint32_t crc32c(std::uint32_t crc_so_far, const void* data, std::size_t bytes);

// The same from tables, whatever the CPU has: for CPUs without the instruction, and for tests.
std::uint32_t crc32c_by_table(std::uint32_t crc_so_far, const void* data, std::size_t bytes);

}  // namespace common
