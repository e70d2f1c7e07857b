// Lists of hosts in SLURM's notation, such as n[01-16,20],login. Pure functions, for any thread.
// Errors have exit code kExitUsage and are one line that quotes what is wrong. They do not say what
// to do about it; the caller adds that.
//
// A list is entries, separated by commas. An entry is a name in which numbers in brackets make
// several names of it. expand_host_list agrees with `scontrol show hostnames` of SLURM 22.05, host
// by host and in order. tests/unit/slurm compares the two.
//   n[01-16,20]    each number is at least as wide as the first one of its range is written
//   r[0-1]n[0-3]   of several brackets the last one varies fastest, then the first, the second, …
// hvdrun accepts text after the last bracket (n[1-4].cluster), which scontrol refuses. hvdrun
// refuses some lists that scontrol accepts: those with an empty entry or without an end ("n[1-",
// "n[1,"), because a list that was cut short looks like that, and those with names that no host can
// have.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The most hosts of a list. It is checked before any memory is allocated. SLURM has the same limit
// for one range (MAX_RANGE).
inline constexpr std::size_t kMaxHosts = 65536;

// The longest name of a host (RFC 1035, 2.3.4).
inline constexpr std::size_t kLongestHostName = 253;

// Returns whether text can be a host's name: 1 to kLongestHostName letters, digits, ".", "-" and
// "_". It does not begin with "-", because ssh would take it for an option.
bool is_host_name(std::string_view text);

// Cuts a list at the commas outside brackets. Returns at least one entry, which may be empty.
std::vector<std::string_view> split_host_list(std::string_view text);

// Returns the hosts of a list, in its order. A host may be there twice. Errors: a malformed or
// empty entry; a name longer than kLongestHostName; more than kMaxHosts hosts.
Result<std::vector<std::string>> expand_host_list(std::string_view text);
// Returns the hosts of all lists. Leaves out a text that is no list.
std::vector<std::string> expand_host_lists(const std::vector<std::string>& lists);

// Writes hosts as a short list for people: "n[1-4],login". Names that differ in one number only are
// joined, with their numbers sorted. The joined names are in the order of their first host.
std::string fold_hosts(const std::vector<std::string>& hosts);

}  // namespace hvdrun
