// CRC-32C, the Castagnoli checksum of RFC 3720 (iSCSI), appendix B.4: polynomial 0x1EDC6F41,
// reflected, initial value and final exclusive-or all ones. With the CPU's instruction for it
// (SSE 4.2, ARMv8 CRC) it runs at memory speed; otherwise from tables, at 1 to 2 GB/s. Pure
// functions, for any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace common {

// Returns the checksum of earlier data, whose checksum is `crc_so_far` (0 if there is none),
// followed by these bytes. crc32c(0, "123456789", 9) is 0xe3069283. Data may be unaligned, or null
// with 0 bytes.
std::uint32_t crc32c(std::uint32_t crc_so_far, const void* data, std::size_t bytes);

// Computes the same from tables: for CPUs without the instruction, and for tests.
std::uint32_t crc32c_by_table(std::uint32_t crc_so_far, const void* data, std::size_t bytes);

}  // namespace common
