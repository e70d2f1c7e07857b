// SLURM's lists: hosts, and numbers for each host. Pure functions.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

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

// The numbers in SLURM's variables that are more than a number. Pure functions; errors (kExitUsage)
// are one line that quotes what is wrong.

// One number a host, as in SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE: "4(x2),3" is 4, 4, 3.
// All are 1 or more; there are at most kMaxHosts, known before memory is taken.
Result<std::vector<int>> expand_counts(std::string_view text);

// A number of GPUs as --gpus and its kin take it, with or without kinds: "4", "a100:4",
// "gpu:a100:4", "a100:2,v100:2". May be 0.
Result<int> count_gpus(std::string_view text);

// The same of generic resources as SLURM prints them:
// "gpu:a100:4(IDX:0-3),gpu:v100:1(S:0,2),nvme:1". 0 of "(null)"; none where a count cannot be read.
std::optional<int> count_gpus_of_gres(std::string_view gres);

// How many GPUs a job has on each of `hosts`, from what `scontrol show job -d` prints of it:
// "Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-3)". Error: a host is not in there, or the
// line has no GRES.
Result<std::vector<int>> count_gpus_by_host(std::string_view description,
                                            const std::vector<std::string>& hosts);

}  // namespace hvdrun
