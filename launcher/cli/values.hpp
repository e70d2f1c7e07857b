// Reads the values of options from text. Pure functions, for any thread. Every error is a phrase to
// follow the option's name ("needs a whole number …"), on one line even if the text has several.
#pragma once

#include "base/result.hpp"
#include "common/text.hpp"
#include "model/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun::cli {

// Reads a whole number from `minimum` to the largest int.
Result<int> parse_whole(std::string_view text, int minimum);

// Reads a number of ranks. The error for a word of torchrun's, "gpu", says what to do.
Result<int> parse_ranks_per_host(std::string_view text);

// Reads a number of hosts. The error for a range, torchrun's "1:4" or SLURM's "1-4", says what to
// do.
Result<int> parse_hosts_count(std::string_view text);

// Reads core, numa, socket, none or auto.
Result<BindTo> parse_binding(std::string_view text);

// Reads slot or node. The error for mpirun's "ppr:N:node" says what to do.
Result<MapBy> parse_map_by(std::string_view text);

// Reads all, single or none.
Result<GpuBind> parse_gpu_bind(std::string_view text);

// Reads the name of a file, or ":PORT". Error also: it is the number of a port, or has an address.
Result<MetricsSpec> parse_metrics(std::string_view text);

// Reads a folder for the ranks' files. Error also: it has a qualifier of mpirun's, ":nocopy".
Result<std::string> parse_output_folder(std::string_view text);

// Reads seconds ("30", "0.5") or a time with a unit ("500ms", "30s", "2m"), not negative. Rounds to
// milliseconds, but a time of more than zero to at least one.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// Reads a time as parse_duration does. Error also: it is zero.
Result<std::chrono::milliseconds> parse_time_limit(std::string_view text);

// Reads megabytes of 1024 * 1024 bytes, decimals allowed. Returns bytes.
Result<std::int64_t> parse_megabytes(std::string_view text);

// Reads a signal's name with or without "SIG", in upper or lower case, or its number.
Result<int> parse_signal(std::string_view text);

// Reads the hosts of -H: "name[:slots],…" (model/host_request.hpp).
Result<std::vector<HostRequest>> parse_hosts(std::string_view text);

// Reads names of hosts, without slots and users: "n[1-4],n7".
Result<std::vector<std::string>> parse_host_names(std::string_view text);

// Reads "NAME" or "NAME=VALUE".
Result<EnvironmentChange> parse_environment_change(std::string_view text);

// Reads one -x into `changes`, where it replaces an earlier one of the same name.
Result<void> store_change(std::string_view text, std::vector<EnvironmentChange>& changes);

// Reads "[RANKS:]COMMAND" of --wrap.
Result<WrapSpec> parse_wrap(std::string_view text);

// Accepts none, rank, rank@host, or a template, which is text with "{". output/ checks its fields.
Result<std::string> parse_label(std::string_view text);

// Reads ranks such as "0,4-7". Returns nullopt for "all".
Result<std::optional<RankSet>> parse_shown_ranks(std::string_view text);

// Reads auto, on or off.
Result<FoldLines> parse_folding(std::string_view text);

// Reads auto, always or never.
Result<ColorMode> parse_color(std::string_view text);

// Reads auto, always, never or log.
Result<ProgressMode> parse_progress(std::string_view text);

// Reads note, allow or refuse.
Result<LoginNode> parse_login_node(std::string_view text);

// Reads the rank of --tty: a number, "last" or -1.
Result<int> parse_one_rank(std::string_view text);

// Reads none, all, or a rank.
Result<InputSpec> parse_input(std::string_view text);

// Adds the frameworks of one --for, "jax,mlx". `none` removes all.
Result<void> add_frameworks(std::string_view value, std::set<Framework>& frameworks);

// Reads a port, 1 to 65535.
Result<int> parse_port(std::string_view text);

// Accepts the name of a file, folder or program. Error: it is empty.
Result<std::string> parse_path(std::string_view text);

// Stores the value in its field, or returns its error.
template <class T, class Field>
Result<void> store(Result<T> value, Field& field) {
  if (!value) return std::move(value).error();
  field = std::move(*value);
  return {};
}

// Returns the error "must be a, b or c, not …".
Error unknown_choice(std::string_view text, const std::vector<std::string_view>& names);

// Returns the value of the choice with this name. Error: there is no such choice.
template <class T>
Result<T> parse_choice(std::string_view text,
                       std::initializer_list<std::pair<std::string_view, T>> choices) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  return unknown_choice(text, names);
}

}  // namespace hvdrun::cli
