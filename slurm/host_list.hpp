// Lists of hosts in SLURM's notation: "n[01-16,20],login". Pure functions.
//
// An entry is a name in which numbers in brackets stand for several; entries are separated by
// commas. What is read agrees with `scontrol show hostnames` of SLURM 22.05, host by host and in
// order, and tests/interop holds it to that:
//   n[01-16,20]    a number is at least as wide as the first one of its range is written
//   r[0-1]n[0-3]   several brackets: the last one counts fastest, then the first, the second, …
// Taken besides, which scontrol refuses: text behind the last bracket (n[1-4].cluster). Refused,
// which scontrol lets pass: entries that are empty or have no end ("n[1-", "n[1,"), since these are
// what is left of a list that was cut short, and names that are no host's.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// No list may have more, and it is known before any memory is taken. SLURM's own limit for one
// range (MAX_RANGE).
inline constexpr std::size_t kMaxHosts = 65536;

// The longest name (RFC 1035, 2.3.4).
inline constexpr std::size_t kLongestHostName = 253;

// Whether text is fit to be a host's name: letters, digits, ".", "-" and "_", of which "-" never
// comes first, since ssh would take it for an option.
bool is_host_name(std::string_view text);

// Cuts a list at the commas that stand outside brackets. Never empty.
std::vector<std::string_view> split_host_list(std::string_view text);

// The hosts of a list, in its order; a host may be there twice. Errors (kExitUsage) are one line
// that quotes what is wrong; they end without a word on what to do, which the caller knows.
Result<std::vector<std::string>> expand_host_list(std::string_view text);

// The other way round, for people: "n[1-4],login". Names that differ in one number only come
// together, the numbers in order; the kinds of names come in the order of their first.
std::string fold_hosts(const std::vector<std::string>& hosts);

}  // namespace hvdrun
