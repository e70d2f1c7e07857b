#include "control/metrics_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Number = std::optional<double>;

struct RankInJob {
  const JobNow& job;
  const RankNow& rank;
  const HostGpuNow* gpu = nullptr;
  int awaited_by = 0;  // how many ranks wait for it
};

enum class Kind { gauge, counter };

struct Family {
  std::string_view name;  // without "hvdrun_" and "_total"
  Kind kind;
  std::string_view unit;  // the name ends with it; "": none
  std::string_view help;
  Number (*value)(const RankInJob&);
};

bool has_answered(const RankNow& rank) {
  return rank.pid != 0 && rank.state != "starting" && rank.state != "unknown" &&
         rank.state != "lost";
}

bool has_ended(const RankNow& rank) {
  return rank.state == "ended" || !rank.end.empty();
}

Number if_known(double value) {
  return value > 0 ? Number(value) : std::nullopt;
}

// While a rank runs. What has ended has no memory.
Number if_running(const RankInJob& in, double value) {
  return has_ended(in.rank) ? std::nullopt : Number(value);
}

// Of a rank whose host has answered.
constexpr auto kOfRanks = std::to_array<Family>({
    {"rank_up", Kind::gauge, "", "1 while the rank's process runs",
     [](const RankInJob& in) { return Number(has_ended(in.rank) ? 0 : 1); }},
    {"rank_in_job", Kind::gauge, "", "1 while the rank is in the job; 0: a spare, or lost",
     [](const RankInJob& in) { return Number(in.rank.role == "member" ? 1 : 0); }},
    {"rank_steps", Kind::counter, "", "steps that the program has reported",
     [](const RankInJob& in) { return if_known(static_cast<double>(in.rank.step)); }},
    {"rank_samples", Kind::counter, "", "samples that the program has reported",
     [](const RankInJob& in) { return if_known(static_cast<double>(in.rank.samples)); }},
    {"rank_epoch", Kind::gauge, "", "the epoch that the program has reported",
     [](const RankInJob& in) {
       return in.rank.epoch ? Number(static_cast<double>(*in.rank.epoch)) : std::nullopt;
     }},
    {"rank_loss", Kind::gauge, "", "the loss that the program has reported",
     [](const RankInJob& in) { return in.rank.loss; }},
    {"rank_collective_seconds", Kind::counter, "seconds", "time in collectives, with waiting",
     [](const RankInJob& in) { return if_known(in.rank.collective_seconds); }},
    {"rank_waiting_seconds", Kind::counter, "seconds",
     "of the time in collectives, that of waiting for other ranks",
     [](const RankInJob& in) {
       return in.rank.collective_seconds > 0 ? Number(in.rank.waiting_seconds) : std::nullopt;
     }},
    {"rank_current_collective_seconds", Kind::gauge, "seconds",
     "time since the rank came to the collective that it is in; 0: it is in none",
     [](const RankInJob& in) { return if_running(in, in.rank.in_collective_seconds); }},
    {"rank_awaiting_ranks", Kind::gauge, "", "how many ranks wait for this one in a collective",
     [](const RankInJob& in) { return Number(in.awaited_by); }},
    {"rank_cpu_seconds", Kind::counter, "seconds", "processor time of the rank's processes",
     [](const RankInJob& in) { return Number(in.rank.cpu_seconds); }},
    {"rank_resident_memory_bytes", Kind::gauge, "bytes",
     "resident memory of the rank's processes together",
     [](const RankInJob& in) { return if_running(in, static_cast<double>(in.rank.memory_bytes)); }},
    {"rank_processes", Kind::gauge, "", "the rank's processes",
     [](const RankInJob& in) { return if_running(in, in.rank.processes); }},
    {"rank_gpu_utilization_ratio", Kind::gauge, "ratio", "how busy the rank's GPU is, up to 1",
     [](const RankInJob& in) {
       return in.gpu != nullptr && in.gpu->busy_percent ? Number(*in.gpu->busy_percent / 100)
                                                        : std::nullopt;
     }},
    {"rank_gpu_memory_used_bytes", Kind::gauge, "bytes",
     "memory of the rank's GPU that processes use",
     [](const RankInJob& in) {
       return in.gpu != nullptr && in.gpu->memory_bytes
                  ? Number(static_cast<double>(*in.gpu->memory_bytes))
                  : std::nullopt;
     }},
    {"rank_gpu_temperature_celsius", Kind::gauge, "celsius", "temperature of the rank's GPU",
     [](const RankInJob& in) {
       return in.gpu != nullptr && in.gpu->celsius ? Number(*in.gpu->celsius) : std::nullopt;
     }},
    {"rank_gpu_power_watts", Kind::gauge, "watts", "power that the rank's GPU takes",
     [](const RankInJob& in) { return in.gpu != nullptr ? in.gpu->watts : std::nullopt; }},
});

// Returns the text in quotes, as a label's value.
std::string in_quotes(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') value += '\\';
    if (c == '\n')
      value += "\\n";
    else
      value += c;
  }
  return value + '"';
}

class MetricsWriter {
 public:
  MetricsWriter(const JobNow& now, MetricsFormat format)
      : now_(now),
        format_(format),
        id_(in_quotes(now.about.scheduler_job.empty() ? now.about.id : now.about.scheduler_job)) {}

  std::string make() {
    add_job();
    add_hosts();
    const auto ranks = ranks_in_job();
    for (const auto& family : kOfRanks) {
      bool has_begun = false;
      for (const auto& in : ranks) {
        const auto value = family.value(in);
        if (!value) continue;
        if (!std::exchange(has_begun, true))
          begin(family.name, family.kind, family.unit, family.help);
        sample(labels_of(in), *value);
      }
    }
    if (format_ == MetricsFormat::openmetrics) text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  void add_job() {
    const auto& about = now_.about;
    const bool is_open = format_ == MetricsFormat::openmetrics;
    text_ += fmt::format("# HELP hvdrun_job{0} what runs\n# TYPE hvdrun_job{0} {1}\n",
                         is_open ? "" : "_info", is_open ? "info" : "gauge");
    text_ += fmt::format(
        "hvdrun_job_info{{job_id={},version={},phase={},scheduler={},scheduler_job={}}} 1\n", id_,
        in_quotes(about.version), in_quotes(about.phase), in_quotes(about.scheduler),
        in_quotes(about.scheduler_job));
    const auto one = [this](std::string_view name, Kind kind, std::string_view unit,
                            std::string_view help, double value) {
      begin(name, kind, unit, help);
      sample({}, value);
    };
    one("job_start_time_seconds", Kind::gauge, "seconds", "when hvdrun was started, since 1970",
        about.begun);
    one("job_ranks", Kind::gauge, "", "the ranks that are in the job", about.ranks);
    one("job_spares", Kind::gauge, "", "processes that are not in the job yet", about.spares);
    one("job_lost_ranks", Kind::gauge, "", "ranks without which the job continued", about.lost);
    one("job_hosts", Kind::gauge, "", "the job's hosts", about.hosts);
    one("job_restarts", Kind::counter, "", "how often hvdrun has started the program again",
        about.restarts);
  }

  void add_hosts() {
    if (now_.hosts.empty()) return;
    begin("host_up", Kind::gauge, "", "1 while the host runs ranks and answers");
    for (const auto& host : now_.hosts)
      sample(",host=" + in_quotes(host.host), host.state == "running" ? 1 : 0);
  }

  std::vector<RankInJob> ranks_in_job() const {
    std::vector<RankInJob> ranks;
    for (const auto& rank : now_.ranks) {
      if (!has_answered(rank)) continue;
      RankInJob in{now_, rank};
      const auto* const host = host_of(rank);
      if (rank.gpu && host != nullptr && static_cast<std::size_t>(*rank.gpu) < host->gpus.size() &&
          !has_ended(rank))
        in.gpu = &host->gpus[static_cast<std::size_t>(*rank.gpu)];
      for (const auto& wait : now_.waits)
        if (std::ranges::find(wait.missing, rank.rank) != wait.missing.end())
          in.awaited_by += static_cast<int>(wait.waiting.size());
      ranks.push_back(in);
    }
    return ranks;
  }

  const HostNow* host_of(const RankNow& rank) const {
    const auto index = static_cast<std::size_t>(std::max(rank.host, 0));
    return index < now_.hosts.size() ? &now_.hosts[index] : nullptr;
  }

  std::string labels_of(const RankInJob& in) const {
    const auto* const host = host_of(in.rank);
    return fmt::format(",rank=\"{}\",host={}", in.rank.rank,
                       in_quotes(host != nullptr ? std::string_view(host->host) : ""));
  }

  void begin(std::string_view name, Kind kind, std::string_view unit, std::string_view help) {
    const bool is_open = format_ == MetricsFormat::openmetrics;
    const std::string_view total = kind == Kind::counter ? "_total" : "";
    const std::string_view in_type = is_open ? "" : total;
    text_ += fmt::format("# HELP hvdrun_{}{} {}\n# TYPE hvdrun_{}{} {}\n", name, in_type, help,
                         name, in_type, kind == Kind::counter ? "counter" : "gauge");
    if (is_open && !unit.empty()) text_ += fmt::format("# UNIT hvdrun_{} {}\n", name, unit);
    sample_ = fmt::format("hvdrun_{}{}", name, total);
  }

  // `labels` begin with a comma.
  void sample(std::string_view labels, double value) {
    text_ += fmt::format("{}{{job_id={}{}}} {}\n", sample_, id_, labels, number_text(value));
  }

  static std::string number_text(double value) {
    const auto text = fmt::format("{}", value);
    if (text.find("nan") != std::string::npos) return "NaN";
    if (text.find("inf") != std::string::npos) return value > 0 ? "+Inf" : "-Inf";
    return text;
  }

  const JobNow& now_;
  const MetricsFormat format_;
  const std::string id_;  // in quotes
  std::string sample_;    // the name of the next samples
  std::string text_;
};

}  // namespace

std::string metrics_text(const JobNow& now, MetricsFormat format) {
  return MetricsWriter(now, format).make();
}

std::string_view media_type(MetricsFormat format) {
  return format == MetricsFormat::openmetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

MetricsFormat metrics_format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? MetricsFormat::openmetrics
             : MetricsFormat::prometheus;
}

}  // namespace hvdrun
