// The fields of the messages of messages.hpp, in the order of their structs; see fields.hpp.
#pragma once

#include "protocol/fields.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include <sys/resource.h>
#include <termios.h>

// Where the types are from: lists are found by argument-dependent lookup.
inline constexpr auto fields_of(const rlimit*) {
  using hvdrun::json_fields::field;
  return std::tuple(field("current", &rlimit::rlim_cur), field("maximum", &rlimit::rlim_max));
}

// Linux has the same flags and control characters on all machines that CUDA knows.
inline constexpr auto fields_of(const termios*) {
  using hvdrun::json_fields::field;
  return std::tuple(field("input", &termios::c_iflag), field("output", &termios::c_oflag),
                    field("control", &termios::c_cflag), field("local", &termios::c_lflag),
                    field("characters", &termios::c_cc));
}

namespace hvdrun {

inline constexpr auto fields_of(const Core*) {
  using T = Core;
  using json_fields::field;
  return std::tuple(field("package", &T::package), field("numa_node", &T::numa_node),
                    field("pus", &T::pus), field("l3_cache", &T::l3_cache),
                    field("kind", &T::kind));
}

inline constexpr auto fields_of(const Gpu*) {
  using T = Gpu;
  using json_fields::field;
  return std::tuple(field("visible", &T::visible), field("uuid", &T::uuid),
                    field("pci_address", &T::pci_address), field("name", &T::name),
                    field("memory_bytes", &T::memory_bytes), field("numa_node", &T::numa_node),
                    field("near_cpus", &T::near_cpus), field("watched_as", &T::watched_as));
}

inline constexpr auto fields_of(const HostInventory*) {
  using T = HostInventory;
  using json_fields::field;
  return std::tuple(field("cores", &T::cores), field("numa_nodes", &T::numa_nodes),
                    field("cpu_quota", &T::cpu_quota), field("gpu_vendor", &T::gpu_vendor),
                    field("gpus", &T::gpus), field("gpus_need_list", &T::gpus_need_list),
                    field("single_because", &T::single_because),
                    field("gpu_source", &T::gpu_source), field("topology_file", &T::topology_file),
                    field("notes", &T::notes));
}

inline constexpr auto fields_of(const HostFacts*) {
  using T = HostFacts;
  using json_fields::field;
  return std::tuple(field("machine", &T::machine), field("address", &T::address),
                    field("launcher_address", &T::launcher_address),
                    field("interfaces", &T::interfaces), field("unresolved", &T::unresolved));
}

inline constexpr auto fields_of(const DeviceChoice*) {
  using T = DeviceChoice;
  using json_fields::field;
  return std::tuple(field("name", &T::name), field("value", &T::value),
                    field("counted", &T::counted));
}

inline constexpr auto fields_of(const ConfigureMessage*) {
  using T = ConfigureMessage;
  using json_fields::field;
  return std::tuple(field("protocol", &T::protocol), field("version", &T::version),
                    field("job_id", &T::job_id), field("agent", &T::agent),
                    field("restart_count", &T::restart_count), field("pmix", &T::pmix),
                    field("local_ranks", &T::local_ranks), field("host_timeout", &T::host_timeout),
                    field("names", &T::names), field("devices", &T::devices),
                    field("predecessor", &T::predecessor));
}

inline constexpr auto fields_of(const HelloMessage*) {
  using T = HelloMessage;
  using json_fields::field;
  return std::tuple(field("protocol", &T::protocol), field("version", &T::version),
                    field("host", &T::host), field("pid", &T::pid), field("route", &T::route),
                    field("inventory", &T::inventory), field("pmix_error", &T::pmix_error),
                    field("ports", &T::ports), field("facts", &T::facts));
}

inline constexpr auto fields_of(const HoldPortsMessage*) {
  using T = HoldPortsMessage;
  using json_fields::field;
  return std::tuple(field("count", &T::count), field("master_port", &T::master_port));
}

inline constexpr auto fields_of(const PortsMessage*) {
  using T = PortsMessage;
  using json_fields::field;
  return std::tuple(field("ports", &T::ports));
}

inline constexpr auto fields_of(const WindowSize*) {
  using T = WindowSize;
  using json_fields::field;
  return std::tuple(field("rows", &T::rows), field("columns", &T::columns));
}

inline constexpr auto fields_of(const TerminalSettings*) {
  using T = TerminalSettings;
  using json_fields::field;
  return std::tuple(field("size", &T::size), field("modes", &T::modes));
}

inline constexpr auto fields_of(const LaunchRank*) {
  using T = LaunchRank;
  using json_fields::field;
  return std::tuple(field("rank", &T::rank), field("local_rank", &T::local_rank),
                    field("wants_input", &T::wants_input),
                    field("inherits_input", &T::inherits_input), field("terminal", &T::terminal),
                    field("environment", &T::environment), field("cpus", &T::cpus),
                    field("numa_nodes", &T::numa_nodes));
}

// The hosts of a job, column by column. Every agent gets all of them, so that with an object for
// each host a launch would cost the most here.
struct LaunchHostColumns {
  std::string names;      // each with a zero byte at its end
  std::string addresses;  // as the names
  std::vector<std::size_t> rank_counts;
  std::vector<int> ranks;  // of the first host, then of the second one, and so on
};

inline constexpr auto fields_of(const LaunchHostColumns*) {
  using T = LaunchHostColumns;
  using json_fields::field;
  return std::tuple(field("names", &T::names), field("addresses", &T::addresses),
                    field("rank_counts", &T::rank_counts), field("ranks", &T::ranks));
}

json_fields::Json to_json(const std::vector<LaunchHost>& hosts);
void from_json(const json_fields::Json& json, std::vector<LaunchHost>& hosts);

inline constexpr auto fields_of(const ResourceLimit*) {
  using T = ResourceLimit;
  using json_fields::field;
  return std::tuple(field("resource", &T::resource), field("value", &T::value));
}

inline constexpr auto fields_of(const LaunchMessage*) {
  using T = LaunchMessage;
  using json_fields::field;
  return std::tuple(
      field("size", &T::size), field("host_index", &T::host_index), field("hosts", &T::hosts),
      field("pmix_namespace", &T::pmix_namespace), field("program", &T::program),
      field("arguments", &T::arguments), field("working_directory", &T::working_directory),
      field("environment", &T::environment), field("host_variables", &T::host_variables),
      field("limits", &T::limits), field("umask", &T::umask), field("niceness", &T::niceness),
      field("ranks", &T::ranks), field("mlx_hosts", &T::mlx_hosts),
      field("gpu_vendor", &T::gpu_vendor), field("gpus", &T::gpus),
      field("stall_time", &T::stall_time), field("join_time", &T::join_time),
      field("progress_interval", &T::progress_interval), field("elastic", &T::elastic),
      field("key", &T::key), field("grows", &T::grows), field("order_streams", &T::order_streams),
      field("kill_signal", &T::kill_signal), field("grace", &T::grace));
}

inline constexpr auto fields_of(const StartMoreMessage*) {
  return std::tuple(json_fields::field("ranks", &StartMoreMessage::ranks));
}

inline constexpr auto fields_of(const StartedMessage*) {
  using T = StartedMessage;
  using json_fields::field;
  return std::tuple(field("pids", &T::pids));
}

inline constexpr auto fields_of(const EpochCounts*) {
  using T = EpochCounts;
  using json_fields::field;
  return std::tuple(field("epoch", &T::epoch), field("seconds", &T::seconds),
                    field("samples", &T::samples));
}

inline constexpr auto fields_of(const MetricValue*) {
  using T = MetricValue;
  using json_fields::field;
  return std::tuple(field("name", &T::name), field("value", &T::value));
}

inline constexpr auto fields_of(const RankCounters*) {
  using T = RankCounters;
  using json_fields::field;
  return std::tuple(
      field("joined", &T::joined), field("steps", &T::steps), field("samples", &T::samples),
      field("collective_seconds", &T::collective_seconds),
      field("waiting_seconds", &T::waiting_seconds), field("epochs_over", &T::epochs_over),
      field("epochs", &T::epochs), field("metrics", &T::metrics), field("epoch", &T::epoch),
      field("epochs_in_all", &T::epochs_in_all), field("steps_in_all", &T::steps_in_all),
      field("samples_per_second", &T::samples_per_second), field("commits", &T::commits),
      field("had_to_stop", &T::had_to_stop));
}

inline constexpr auto fields_of(const RankFailure*) {
  using T = RankFailure;
  using json_fields::field;
  return std::tuple(field("reported", &T::reported), field("text", &T::text),
                    field("because_of_peer", &T::because_of_peer),
                    field("before_stop", &T::before_stop), field("seconds_ago", &T::seconds_ago));
}

inline constexpr auto fields_of(const ExitedMessage*) {
  using T = ExitedMessage;
  using json_fields::field;
  return std::tuple(
      field("rank", &T::rank), field("wait_status", &T::wait_status),
      field("before_stop", &T::before_stop), field("after_kill", &T::after_kill),
      field("lost_connection", &T::lost_connection), field("out_of_memory", &T::out_of_memory),
      field("dev_shm_is_full", &T::dev_shm_is_full), field("seconds", &T::seconds),
      field("user_seconds", &T::user_seconds), field("system_seconds", &T::system_seconds),
      field("peak_memory_bytes", &T::peak_memory_bytes), field("input_taken", &T::input_taken),
      field("last_error", &T::last_error), field("error_of_peer", &T::error_of_peer),
      field("in_collective", &T::in_collective), field("counters", &T::counters),
      field("failure", &T::failure), field("agent_clock", &T::agent_clock));
}

inline constexpr auto fields_of(const AbortedMessage*) {
  using T = AbortedMessage;
  using json_fields::field;
  return std::tuple(field("rank", &T::rank), field("code", &T::code), field("text", &T::text),
                    field("agent_clock", &T::agent_clock));
}

inline constexpr auto fields_of(const FailedMessage*) {
  using T = FailedMessage;
  using json_fields::field;
  return std::tuple(field("text", &T::text), field("exit_code", &T::exit_code));
}

inline constexpr auto fields_of(const StopMessage*) {
  using T = StopMessage;
  using json_fields::field;
  return std::tuple(field("signal", &T::signal), field("grace", &T::grace));
}

inline constexpr auto fields_of(const RankActivity*) {
  using T = RankActivity;
  using json_fields::field;
  return std::tuple(field("pid", &T::pid), field("program", &T::program),
                    field("system_call", &T::system_call), field("seconds", &T::seconds),
                    field("cpu_seconds", &T::cpu_seconds));
}

inline constexpr auto fields_of(const RankUse*) {
  using T = RankUse;
  using json_fields::field;
  return std::tuple(field("epoch", &T::epoch), field("epochs_in_all", &T::epochs_in_all),
                    field("steps_in_all", &T::steps_in_all), field("samples", &T::samples),
                    field("samples_per_second", &T::samples_per_second),
                    field("since_progress", &T::since_progress),
                    field("collective_seconds", &T::collective_seconds),
                    field("waiting_seconds", &T::waiting_seconds), field("loss", &T::loss),
                    field("processes", &T::processes), field("cpu_seconds", &T::cpu_seconds),
                    field("memory_bytes", &T::memory_bytes));
}

inline constexpr auto fields_of(const RankState*) {
  using T = RankState;
  using json_fields::field;
  return std::tuple(
      field("rank", &T::rank), field("pid", &T::pid), field("state", &T::state),
      field("step", &T::step), field("epoch", &T::epoch), field("collective", &T::collective),
      field("collective_seconds", &T::collective_seconds), field("calls", &T::calls),
      field("background", &T::background), field("background_seconds", &T::background_seconds),
      field("background_missing", &T::background_missing), field("activity", &T::activity),
      field("use", &T::use));
}

inline constexpr auto fields_of(const QuestionMessage*) {
  using T = QuestionMessage;
  using json_fields::field;
  return std::tuple(field("number", &T::number), field("wanted", &T::wanted),
                    field("interval", &T::interval), field("limit", &T::limit));
}

inline constexpr auto fields_of(const AnswerMessage*) {
  using T = AnswerMessage;
  using json_fields::field;
  return std::tuple(field("number", &T::number), field("ranks", &T::ranks),
                    field("clock", &T::clock), field("gpus", &T::gpus), field("looks", &T::looks),
                    field("problem", &T::problem), field("more", &T::more));
}

inline constexpr auto fields_of(const StallsMessage::Wait*) {
  using T = StallsMessage::Wait;
  using json_fields::field;
  return std::tuple(field("rank", &T::rank), field("collective", &T::collective),
                    field("completed", &T::completed));
}

inline constexpr auto fields_of(const StallsMessage*) {
  using T = StallsMessage;
  using json_fields::field;
  return std::tuple(field("begun", &T::begun), field("over", &T::over));
}

inline constexpr auto fields_of(const Progress*) {
  using T = Progress;
  using json_fields::field;
  return std::tuple(field("epoch", &T::epoch), field("epochs", &T::epochs), field("step", &T::step),
                    field("steps", &T::steps), field("samples_per_second", &T::samples_per_second),
                    field("loss", &T::loss), field("waiting", &T::waiting),
                    field("seconds_left", &T::seconds_left));
}

inline constexpr auto fields_of(const UseNow*) {
  using T = UseNow;
  using json_fields::field;
  return std::tuple(field("cores", &T::cores), field("gpus", &T::gpus),
                    field("gpus_busy", &T::gpus_busy));
}

inline constexpr auto fields_of(const HostProgress*) {
  using T = HostProgress;
  using json_fields::field;
  return std::tuple(field("called_init", &T::called_init), field("in_init", &T::in_init),
                    field("rank", &T::rank), field("reporting", &T::reporting),
                    field("progress", &T::progress), field("use", &T::use));
}

inline constexpr auto fields_of(const ProgressMessage*) {
  using T = ProgressMessage;
  using json_fields::field;
  return std::tuple(field("host", &T::host));
}

inline constexpr auto fields_of(const ApartMessage*) {
  using T = ApartMessage;
  using json_fields::field;
  return std::tuple(field("lacks_tf_config", &T::lacks_tf_config),
                    field("uses_mpich", &T::uses_mpich), field("lacks_pmix", &T::lacks_pmix),
                    field("joined", &T::joined));
}

inline constexpr auto fields_of(const Throttling*) {
  using T = Throttling;
  using json_fields::field;
  return std::tuple(field("samples", &T::samples), field("seen", &T::seen));
}

inline constexpr auto fields_of(const GpuNow*) {
  using T = GpuNow;
  using json_fields::field;
  return std::tuple(field("busy_percent", &T::busy_percent),
                    field("memory_bytes", &T::memory_bytes), field("celsius", &T::celsius),
                    field("watts", &T::watts));
}

inline constexpr auto fields_of(const GpuUse*) {
  using T = GpuUse;
  using json_fields::field;
  return std::tuple(field("uuid", &T::uuid), field("samples", &T::samples),
                    field("busy_percent", &T::busy_percent),
                    field("peak_memory_bytes", &T::peak_memory_bytes),
                    field("peak_celsius", &T::peak_celsius), field("mean_watts", &T::mean_watts),
                    field("peak_watts", &T::peak_watts), field("throttling", &T::throttling),
                    field("now", &T::now));
}

inline constexpr auto fields_of(const GpuRecord*) {
  using T = GpuRecord;
  using json_fields::field;
  return std::tuple(field("gpus", &T::gpus), field("rank_memory", &T::rank_memory),
                    field("rank_drove_all", &T::rank_drove_all));
}

inline constexpr auto fields_of(const DoneMessage*) {
  using T = DoneMessage;
  using json_fields::field;
  return std::tuple(field("leftovers", &T::leftovers), field("gpus", &T::gpus),
                    field("ranks_joined", &T::ranks_joined), field("apart", &T::apart));
}

}  // namespace hvdrun
