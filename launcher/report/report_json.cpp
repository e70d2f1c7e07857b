#include "report/report_json.hpp"

#include "base/event_loop.hpp"
#include "base/new_file.hpp"
#include "report/host_use.hpp"
#include "report/progress_text.hpp"
#include "report/stragglers.hpp"
#include "report/throttling.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string how_it_ended(const RankReport& rank) {
  if (rank.pid == 0) return "never started";
  if (rank.abort_code) return "aborted";
  if (!rank.exited) return "unknown";
  if (rank.stopped_by_us) return "stopped by hvdrun";
  if (rank.signal != 0) return "signal";
  return rank.lost_connection ? "left without finalize" : "exit";
}

Json counters_json(const RankCounters& counters) {
  if (!counters.joined && counters.metrics.empty() && !reports_progress(counters)) return {};
  Json epochs = Json::array();
  for (const auto& epoch : counters.epochs)
    epochs.push_back(
        {{"epoch", epoch.epoch}, {"seconds", epoch.seconds}, {"samples", epoch.samples}});
  Json metrics = Json::object();
  for (const auto& metric : counters.metrics) metrics[metric.name] = metric.value;
  const auto if_known = [](std::uint64_t number) { return number > 0 ? Json(number) : Json(); };
  return {{"steps", counters.steps},
          {"steps_in_all", if_known(counters.steps_in_all)},
          {"epoch", or_null(counters.epoch)},
          {"epochs_in_all", if_known(counters.epochs_in_all)},
          {"samples", counters.samples},
          {"samples_per_second",
           counters.samples_per_second > 0 ? Json(counters.samples_per_second) : Json()},
          {"collective_seconds", counters.collective_seconds},
          {"waiting_seconds", counters.waiting_seconds},
          {"epochs_over", counters.epochs_over},
          {"epochs", std::move(epochs)},
          {"metrics", std::move(metrics)},
          {"had_to_stop", counters.had_to_stop}};
}

Json progress_json(const std::optional<Progress>& progress) {
  if (!progress) return {};
  const auto percent = [](double share) { return 100 * share; };
  return {{"epoch", or_null(progress->epoch)},
          {"epochs", or_null(progress->epochs)},
          {"step", or_null(progress->step)},
          {"steps", or_null(progress->steps)},
          {"samples_per_second", or_null(progress->samples_per_second)},
          {"loss", or_null(progress->loss)},
          {"waiting_percent", progress->waiting ? Json(percent(*progress->waiting)) : Json()}};
}

Json throttling_json(const std::optional<Throttling>& throttling) {
  if (!throttling) return {};
  Json reasons = Json::array();
  for (const auto& [reason, percent] : throttle_shares(*throttling))
    reasons.push_back({{"reason", reason}, {"percent", percent}});
  return reasons;
}

Json gpu_json(const GpuUse& gpu) {
  return {{"uuid", gpu.uuid},
          {"device", gpu.device.empty() ? Json() : Json(gpu.device)},
          {"samples", gpu.samples},
          {"busy_percent", or_null(gpu.busy_percent)},
          {"peak_memory_bytes", or_null(gpu.peak_memory_bytes)},
          {"peak_celsius", or_null(gpu.peak_celsius)},
          {"mean_watts", or_null(gpu.mean_watts)},
          {"peak_watts", or_null(gpu.peak_watts)},
          {"throttling", throttling_json(gpu.throttling)}};
}

Json devices_json(const std::optional<HostHardware>& hardware) {
  if (!hardware) return {};
  Json names = Json::array();
  for (const auto& name : hardware->gpus) names.push_back(name.empty() ? Json() : Json(name));
  return names;
}

Json host_json(const HostUse& host) {
  Json gpus = Json::array();
  for (const auto& gpu : host.gpus) gpus.push_back(gpu_json(gpu));
  const auto if_joined = [&](double seconds) { return host.joined > 0 ? Json(seconds) : Json(); };
  return {{"host", host.host},
          {"ranks", host.ranks},
          {"seconds", host.seconds},
          {"cpu_seconds", host.cpu_seconds},
          {"cpu_cores", host.cores()},
          {"peak_memory_bytes", host.peak_memory_bytes},
          {"collective_seconds", if_joined(host.collective_seconds)},
          {"waiting_seconds", if_joined(host.waiting_seconds)},
          {"gpus", std::move(gpus)},
          {"cores", host.hardware ? Json(host.hardware->cores) : Json()},
          {"devices", devices_json(host.hardware)}};
}

Json stragglers_json(const Report& report) {
  const auto stragglers = find_stragglers(report.ranks, report.waits);
  if (!stragglers) return {};
  const auto& missed = stragglers->missed;
  return {{"ranks", stragglers->ranks},
          {"missed", missed.empty() ? Json() : Json(missed)},
          {"waiting_seconds", stragglers->waiting_seconds},
          {"others_waiting_seconds", stragglers->others_waiting_seconds}};
}

Json waits_json(const std::vector<CollectiveWait>& waits) {
  Json json = Json::array();
  for (const auto& wait : waits)
    json.push_back({{"collective", wait.collective},
                    {"seconds", wait.seconds},
                    {"waiting", wait.waiting},
                    {"missing", wait.missing}});
  return json;
}

Json hang_json(const std::optional<HangReport>& hang) {
  if (!hang) return {};
  return {{"kind", hang->kind == HangKind::slow ? "slow" : "hangs"},
          {"text", hang->text},
          {"blamed", hang->blamed},
          {"waiting", hang->waiting},
          {"collective", hang->collective.empty() ? Json() : Json(hang->collective)},
          {"stacks", hang->stacks},
          {"problems", hang->problems}};
}

Json failure_json(const RankFailure& failure) {
  if (failure.text.empty()) return {};
  return {{"text", failure.text}, {"because_of_peer", failure.because_of_peer}};
}

Json activity_json(const std::optional<RankActivity>& activity) {
  if (!activity) return {};
  return {{"pid", activity->pid},
          {"program", activity->program},
          {"system_call", activity->system_call},
          {"seconds", activity->seconds},
          {"cpu_seconds", activity->cpu_seconds}};
}

Json rank_json(const RankReport& rank) {
  return {{"rank", rank.placement.rank},
          {"host", rank.host},
          {"local_rank", rank.placement.local_rank},
          {"pid", rank.pid},
          {"gpu", rank.placement.device_name.empty() ? Json() : Json(rank.placement.device_name)},
          {"cpus", rank.placement.cpus},
          {"ended", how_it_ended(rank)},
          {"exit_code", rank.exited && rank.signal == 0 ? Json(rank.exit_code) : Json()},
          {"signal", rank.signal == 0 ? Json() : Json(signal_name(rank.signal))},
          {"abort_code", or_null(rank.abort_code)},
          {"core_dumped", rank.core_dumped},
          {"out_of_memory", rank.out_of_memory},
          {"seconds", rank.seconds},
          {"user_seconds", rank.user_seconds},
          {"system_seconds", rank.system_seconds},
          {"peak_memory_bytes", rank.peak_memory_bytes},
          {"peak_gpu_memory_bytes", or_null(rank.peak_gpu_memory_bytes)},
          {"counters", counters_json(rank.counters)},
          {"failure", failure_json(rank.failure)},
          {"last_error", rank.last_error},
          {"in_collective", rank.in_collective},
          {"at_stop", activity_json(rank.at_stop)},
          {"last_stderr", rank.last_stderr}};
}

Json attempt_json(const AttemptReport& attempt) {
  return {{"exit_code", attempt.exit_code},
          {"reason", attempt.reason},
          {"failed_rank", attempt.first_failure ? rank_json(*attempt.first_failure) : Json()},
          {"wall_seconds", attempt.wall_seconds},
          {"cpu_seconds", attempt.cpu_seconds},
          {"peak_memory_bytes", attempt.peak_memory_bytes},
          {"peak_gpu_memory_bytes", or_null(attempt.peak_gpu_memory_bytes)}};
}

Json losses_json(const std::vector<LostMemberReport>& losses) {
  Json json = Json::array();
  for (const auto& loss : losses) json.push_back({{"rank", loss.member}, {"how", loss.text}});
  return json;
}

// Ranks are called by their numbers at the start.
Json generations_json(const std::optional<GenerationsReport>& report) {
  if (!report) return {};
  Json json = Json::array();
  for (const auto& generation : report->generations)
    json.push_back({{"number", generation.number},
                    {"size", generation.members.size()},
                    {"ranks", generation.members},
                    {"joined", generation.joined},
                    {"lost", losses_json(generation.lost)},
                    {"committed", generation.committed},
                    {"step", generation.step},
                    {"seconds", generation.seconds},
                    {"pause_seconds", generation.pause_seconds}});
  return json;
}

Result<NewFile> create_report(const std::filesystem::path& file) {
  return NewFile::create(file, "cannot write the report to " + file.string(), kExitUsage);
}

}  // namespace

std::string report_json(const Report& report) {
  Json ranks = Json::array();
  for (const auto& rank : report.ranks) ranks.push_back(rank_json(rank));
  Json hosts = Json::array();
  for (const auto& host : use_of_hosts(report)) hosts.push_back(host_json(host));
  Json attempts = Json::array();
  for (const auto& attempt : report.attempts) attempts.push_back(attempt_json(attempt));
  const Json json{{"version", 1},
                  {"exit_code", report.exit_code},
                  {"reason", report.reason},
                  {"first_failure", or_null(report.first_failure)},
                  {"wall_seconds", report.wall_seconds},
                  {"not_restarted", report.not_restarted},
                  {"attempts", std::move(attempts)},
                  {"generations", generations_json(report.generations)},
                  {"notes", report.notes},
                  {"leftovers", report.leftovers},
                  {"may_be_separate_runs", report.may_be_separate_runs},
                  {"progress", progress_json(final_progress(report.ranks))},
                  {"hosts", std::move(hosts)},
                  {"stragglers", stragglers_json(report)},
                  {"waits", waits_json(report.waits)},
                  {"hang", hang_json(report.hang)},
                  {"ranks", std::move(ranks)}};
  // What ranks print need not be UTF-8, and JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<void> check_report_file(const std::filesystem::path& file) {
  HVD_CHECK(create_report(file));
  return {};
}

Result<void> write_report(const Report& report, const std::filesystem::path& file) {
  HVD_TRY(NewFile made, create_report(file));
  return made.commit(report_json(report));
}

}  // namespace hvdrun
