#include "cli/values.hpp"

#include "base/is_one_of.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cmath>

namespace hvdrun::cli {
namespace {

constexpr auto npos = std::string_view::npos;

constexpr std::pair<std::string_view, int> kSignals[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},
    {"KILL", SIGKILL}, {"USR1", SIGUSR1},     {"USR2", SIGUSR2}, {"ALRM", SIGALRM},
    {"TERM", SIGTERM}, {"XCPU", SIGXCPU},     {"PIPE", SIGPIPE}, {"BUS", SIGBUS},
    {"SEGV", SIGSEGV}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"IO", SIGIO},
    {"PWR", SIGPWR},   {"SYS", SIGSYS},       {"FPE", SIGFPE},   {"ILL", SIGILL},
    {"TRAP", SIGTRAP}, {"XFSZ", SIGXFSZ},
};

}  // namespace

Result<int> parse_whole(std::string_view text, int minimum) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = end == text.data() + text.size() && !text.empty();
  if (is_number && error == std::errc::result_out_of_range)
    return usage_error("cannot be " + quote(text) + ": that is out of range");
  if (!is_number || error != std::errc{} || value < minimum)
    return usage_error("needs a whole number of " + std::to_string(minimum) + " or more, not " +
                       quote(text));
  if (value > INT_MAX) return usage_error("cannot be " + quote(text) + ": that is out of range");
  return static_cast<int>(value);
}

Result<int> parse_ranks_per_host(std::string_view text) {
  if (text == "gpu" || text == "auto" || text == "cpu" || text == "xpu")
    return usage_error("needs a number, not " + quote(text) +
                       ": leave it out for one rank per GPU, or without GPUs one per core");
  return parse_whole(text, 1);
}

Result<int> parse_hosts_count(std::string_view text) {
  const auto middle = text.find_first_of(":-", 1);
  if (middle != npos && parse_whole(text.substr(0, middle), 1) &&
      parse_whole(text.substr(middle + 1), 1))
    return usage_error(
        "needs one number of hosts, not " + quote(text) +
        ": a program that uses libhvd may continue with fewer ranks (--min-np M), or with "
        "more (--max-np X)");
  return parse_whole(text, 1);
}

Result<BindTo> parse_binding(std::string_view text) {
  auto choice = parse_choice<BindTo>(text, {{"core", BindTo::core},
                                            {"numa", BindTo::numa},
                                            {"socket", BindTo::socket},
                                            {"none", BindTo::none},
                                            {"auto", BindTo::automatic}});
  if (choice) return choice;
  if (text == "package") return usage_error(choice.error().message + "; socket is the same");
  const bool is_cache = text.find("cache") != npos;
  return usage_error(choice.error().message + (is_cache ? "; numa is the nearest" : ""));
}

Result<MapBy> parse_map_by(std::string_view text) {
  if (text.starts_with("ppr:"))
    return usage_error("must be slot or node, not " + quote(text) +
                       "; --ranks-per-host K starts K ranks on each host");
  if (text.find(":PE=") != npos || text.find(":pe=") != npos)
    return usage_error("must be slot or node, not " + quote(text) +
                       "; --cpus-per-rank K gives each rank K cores");
  return parse_choice<MapBy>(text, {{"slot", MapBy::slot}, {"node", MapBy::node}});
}

Result<GpuBind> parse_gpu_bind(std::string_view text) {
  return parse_choice<GpuBind>(
      text, {{"all", GpuBind::all}, {"single", GpuBind::single}, {"none", GpuBind::none}});
}

Result<MetricsSpec> parse_metrics(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto digits = text.substr(colon == npos ? 0 : colon + 1);
  const bool is_port = !digits.empty() && digits.find_first_not_of("0123456789") == npos;
  if (text.empty() || (is_port && colon != 0 && text.find('/') == npos))
    return usage_error("must be a file or :PORT, not " + quote(text) +
                       "; hvdrun listens at 127.0.0.1 only");
  if (colon != 0) return MetricsSpec{std::filesystem::path(text), {}};
  HVD_TRY(const int port, parse_whole(digits, 0));
  if (port > 65535) return usage_error("has a port of at most 65535, not " + quote(text));
  return MetricsSpec{{}, static_cast<std::uint16_t>(port)};
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr double kLongestSeconds = 1e9;  // 31 years; keeps every sum of two in range
  double value = 0;
  const auto* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  double scale = 0;
  if (unit.empty() || unit == "s") scale = 1;
  if (unit == "ms") scale = 1e-3;
  if (unit == "m") scale = 60;
  const double seconds = value * scale;
  // from_chars also accepts "inf" and "nan". A comparison with nan is false.
  if (error != std::errc{} || scale == 0 || !(seconds >= 0) || std::signbit(value))
    return usage_error("needs a time such as 30, 0.5, 500ms or 2m, not " + quote(text));
  if (seconds > kLongestSeconds) return usage_error("cannot be as long as " + quote(text));
  const auto rounded = static_cast<long long>(std::llround(seconds * 1000));
  return std::chrono::milliseconds(seconds > 0 ? std::max(rounded, 1LL) : 0);
}

Result<std::chrono::milliseconds> parse_time_limit(std::string_view text) {
  HVD_TRY(const auto limit, parse_duration(text));
  if (limit.count() == 0) return usage_error("needs a time of more than 0, not " + quote(text));
  return limit;
}

Result<std::int64_t> parse_megabytes(std::string_view text) {
  constexpr double kMost = 1024 * 1024;  // a terabyte
  double value = 0;
  const auto* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  if (error != std::errc{} || end != last || !(value >= 0) || std::signbit(value))
    return usage_error("needs a number of megabytes such as 64 or 0.5, not " + quote(text));
  if (value > kMost) return usage_error("cannot be as much as " + quote(text));
  return std::llround(value * 1024 * 1024);
}

Result<int> parse_signal(std::string_view text) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (name.rfind("SIG", 0) == 0) name.erase(0, 3);
  for (const auto& [known, number] : kSignals)
    if (known == name) return number;
  const auto number = parse_whole(text, 1);
  if (number && *number <= SIGRTMAX) return *number;
  return usage_error("needs a signal such as TERM, INT, USR1 or 15, not " + quote(text));
}

Result<std::vector<HostRequest>> parse_hosts(std::string_view text) {
  auto hosts = parse_host_requests(text, "-H");
  if (!hosts) return usage_error("is not valid: " + hosts.error().message);
  return hosts;
}

Result<std::vector<std::string>> parse_host_names(std::string_view text) {
  const auto hosts = parse_host_requests(text, "");
  if (!hosts && text.find(':') != npos)  // deepspeed's n1:0,1
    return usage_error("takes names of hosts only, such as n[1-4],n7, not " + quote(text) +
                       "; CUDA_VISIBLE_DEVICES chooses GPUs");
  if (!hosts) return usage_error("is not valid: " + hosts.error().message);
  std::vector<std::string> names;
  for (const auto& host : *hosts) {
    if (host.slots || !host.user.empty())
      return usage_error("takes names of hosts only, such as n[1-4],n7, not " + quote(text));
    names.push_back(host.name);
  }
  return names;
}

Result<EnvironmentChange> parse_environment_change(std::string_view text) {
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  const bool odd = std::any_of(name.begin(), name.end(),
                               [](unsigned char c) { return std::iscntrl(c) != 0 || c == ' '; });
  if (name.empty() || odd) return usage_error("needs NAME or NAME=VALUE, not " + quote(text));
  if (equals == npos) return EnvironmentChange{std::string(name), std::nullopt};
  return EnvironmentChange{std::string(name), std::string(text.substr(equals + 1))};
}

Result<void> store_change(std::string_view text, std::vector<EnvironmentChange>& changes) {
  HVD_TRY(auto change, parse_environment_change(text));
  const auto at = std::find_if(changes.begin(), changes.end(),
                               [&](const auto& known) { return known.name == change.name; });
  if (at != changes.end()) {
    *at = std::move(change);
  } else {
    changes.push_back(std::move(change));
  }
  return {};
}

Result<WrapSpec> parse_wrap(std::string_view text) {
  WrapSpec wrap;
  const auto colon = text.find(':');
  const auto first = text.substr(0, colon);
  const bool names_ranks = first.find_first_not_of("0123456789,-last") == std::string_view::npos;
  const bool has_number = first.find_first_of("0123456789") != std::string_view::npos;
  if (colon != std::string_view::npos && names_ranks && (has_number || first == "last")) {
    HVD_TRY(wrap.ranks, RankSet::parse(first));
    text.remove_prefix(colon + 1);
  }
  if (text.find_first_not_of(' ') == std::string_view::npos)
    return usage_error("needs a command such as \"gdb --args\" or \"1:gdb --args\"");
  wrap.command = text;
  return wrap;
}

Result<std::string> parse_label(std::string_view text) {
  const bool is_word = text == "none" || text == "rank" || text == "rank@host";
  if (!is_word && text.find('{') == npos)
    return usage_error("must be none, rank, rank@host or a template such as \"[{rank}] \", not " +
                       quote(text));
  return std::string(text);
}

Result<std::optional<RankSet>> parse_shown_ranks(std::string_view text) {
  if (text == "all") return std::optional<RankSet>();
  auto ranks = RankSet::parse(text);
  if (!ranks) return usage_error("needs ranks such as 0,4-7 or last, not " + quote(text));
  return std::optional(std::move(*ranks));
}

Result<FoldLines> parse_folding(std::string_view text) {
  return parse_choice<FoldLines>(
      text, {{"auto", FoldLines::automatic}, {"on", FoldLines::on}, {"off", FoldLines::off}});
}

Result<ColorMode> parse_color(std::string_view text) {
  return parse_choice<ColorMode>(
      text,
      {{"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}});
}

Result<ProgressMode> parse_progress(std::string_view text) {
  return parse_choice<ProgressMode>(text, {{"auto", ProgressMode::automatic},
                                           {"always", ProgressMode::always},
                                           {"never", ProgressMode::never},
                                           {"log", ProgressMode::log}});
}

Result<LoginNode> parse_login_node(std::string_view text) {
  return parse_choice<LoginNode>(
      text,
      {{"note", LoginNode::note}, {"allow", LoginNode::allow}, {"refuse", LoginNode::refuse}});
}

Result<InputSpec> parse_input(std::string_view text) {
  if (text == "none") return InputSpec{InputSpec::To::none, 0};
  if (text == "all") return InputSpec{InputSpec::To::all, 0};
  const auto rank = parse_rank(text);
  if (!rank) return usage_error("must be none, all, last or a rank, not " + quote(text));
  return InputSpec{InputSpec::To::rank, *rank};
}

Result<int> parse_one_rank(std::string_view text) {
  auto rank = parse_rank(text);
  if (!rank) return usage_error("needs a rank such as 3, or last, not " + quote(text));
  return rank;
}

Result<int> parse_port(std::string_view text) {
  auto port = parse_whole(text, 1);
  if (!port || *port > 65535)
    return usage_error("needs a port, 1 to 65535, not " + quote(text) +
                       (text.find_first_not_of("0123456789") == npos
                            ? ""
                            : "; a partition of SLURM is an option of hvdrun sbatch"));
  return port;
}

Result<std::string> parse_output_folder(std::string_view text) {
  for (const std::string_view qualifier : {":nocopy", ":nojobid"})
    if (text.find(qualifier) != npos)
      return usage_error("needs a folder: leave out mpirun's " + quote(qualifier));
  return parse_path(text);
}

Result<std::string> parse_path(std::string_view text) {
  if (text.empty()) return usage_error("needs a name that is not empty");
  return std::string(text);
}

Error unknown_choice(std::string_view text, const std::vector<std::string_view>& names) {
  std::string message = "must be ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) message += i + 1 == names.size() ? " or " : ", ";
    message += names[i];
  }
  return Error{message + ", not " + quote(text), kExitUsage};
}

Result<void> add_frameworks(std::string_view value, std::set<Framework>& frameworks) {
  if (value == "none") {
    frameworks.clear();
    return {};
  }
  do {
    const auto comma = std::min(value.find(','), value.size());
    if (is_one_of(value.substr(0, comma), {"pytorch", "torch", "PyTorch", "ddp"}))
      return usage_error("is not needed for " + quote(value.substr(0, comma)) + ": leave it out");
    if (value.substr(0, comma) == "horovod")
      return usage_error("is not for \"horovod\": --horovod starts a program that imports it");
    HVD_TRY(const auto framework,
            parse_choice<Framework>(value.substr(0, comma), {{"accelerate", Framework::accelerate},
                                                             {"jax", Framework::jax},
                                                             {"mlx", Framework::mlx},
                                                             {"tensorflow", Framework::tensorflow},
                                                             {"torchrun", Framework::torchrun}}));
    frameworks.insert(framework);
    value.remove_prefix(std::min(comma + 1, value.size()));
  } while (!value.empty());
  return {};
}

}  // namespace hvdrun::cli
