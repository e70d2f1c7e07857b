#include "cli/elastic_options.hpp"

#include "cli/values.hpp"
#include "common/variables.h"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

using Value = std::string_view;
using enum ValueKind;
using enum OptionGroup;

constexpr Option kOptions[] = {
    {"min-np",
     {"--min-np", "--min-num-proc"},
     number,
     start,
     "M",
     "",
     "continue without ranks that are lost, as long as M are left: the others stay in their "
     "processes; the program must use hvd::elastic or hvd_reform",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.elastic.min_ranks); }},
    {"reset-timeout",
     {"--reset-timeout"},
     duration,
     start,
     "TIME",
     "120",
     "with --min-np: after a loss, end a rank that does not come within this time; and the job, if "
     "no rank has called hvd_init by then",
     [](JobSpec& job, Value v) { return store(parse_time_limit(v), job.elastic.reset_timeout); }},
    {"max-np",
     {"--max-np", "--max-num-proc"},
     number,
     start,
     "X",
     "",
     "with --min-np: begin with a rank for each slot, at most X; -np is then the least that must "
     "be there",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 1), job.elastic.max_ranks); }},
    {"spares",
     {"--spares"},
     number,
     start,
     "K",
     "0",
     "with --min-np: start K more processes in free slots, which wait, and take the place of ranks "
     "that are lost",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 0), job.elastic.spares); }},
    {"replace",
     {"--replace"},
     word,
     start,
     "auto|off",
     "off, or auto with --max-np or --spares",
     "with --min-np: start a new process in the place of a lost rank; the others take it in when "
     "it is ready",
     [](JobSpec& job, Value v) {
       return store(parse_choice<bool>(v, {{"auto", true}, {"off", false}}), job.elastic.replace);
     }},
    {"elastic-timeout",
     {"--elastic-timeout"},
     duration,
     start,
     "TIME",
     "600",
     "with --replace auto: give up if fewer than M ranks are left, and no new one is ready within "
     "this time",
     [](JobSpec& job, Value v) { return store(parse_time_limit(v), job.elastic.elastic_timeout); }},
    {"reset-limit",
     {"--reset-limit"},
     number,
     start,
     "N",
     "",
     "with --min-np: stop the job instead of repairing it more than N times after losses; taking "
     "in new ranks does not count",
     [](JobSpec& job, Value v) { return store(parse_whole(v, 0), job.elastic.reset_limit); }},
};

Result<void> need_min_np(const JobSpec& spec) {
  const auto& elastic = spec.elastic;
  const char* given = elastic.max_ranks         ? "--max-np"
                      : elastic.spares > 0      ? "--spares"
                      : elastic.replace == true ? "--replace auto"
                      : elastic.reset_limit     ? "--reset-limit"
                                                : nullptr;
  if (given == nullptr) return {};
  return fail(fmt::format("{} needs --min-np M: otherwise the job ends when a rank is lost", given),
              kExitUsage);
}

// Returns whether libhvd is to use MPI (HVD_TRANSPORT).
bool uses_mpi(const JobSpec& spec, const Environment& environment) {
  std::optional<std::string> value;
  if (const auto* own = find_variable(environment, HVD_ENV_TRANSPORT)) value = *own;
  for (const auto& change : spec.environment)
    if (change.name == HVD_ENV_TRANSPORT && change.value) value = change.value;
  return value == "mpi";
}

}  // namespace

std::span<const Option> elastic_option_table() {
  return kOptions;
}

Result<void> settle_elastic(JobSpec& spec, const Environment& environment) {
  auto& elastic = spec.elastic;
  if (!elastic.min_ranks) return need_min_np(spec);
  // A process keeps its PMIx job for life, so ranks that form another one do without PMIx.
  if (spec.pmix == PmixMode::on)
    return fail("--min-np does not work with --pmix on: a process cannot leave its PMIx job",
                kExitUsage);
  spec.pmix = PmixMode::off;
  if (uses_mpi(spec, environment))
    return fail("--min-np does not work with " HVD_ENV_TRANSPORT "=mpi: MPI cannot lose a rank",
                kExitUsage);
  elastic.replaces = elastic.replace.value_or(elastic.max_ranks || elastic.spares > 0);
  if (elastic.max_ranks && *elastic.max_ranks < spec.ranks.value_or(*elastic.min_ranks))
    return fail(
        fmt::format("--max-np {} is less than {} {}", *elastic.max_ranks,
                    spec.ranks ? "-np" : "--min-np", spec.ranks.value_or(*elastic.min_ranks)),
        kExitUsage);
  return {};
}

}  // namespace hvdrun::cli
