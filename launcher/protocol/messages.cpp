#include "protocol/messages.hpp"

#include "common/wire.hpp"
#include "protocol/cbor_depth.hpp"
#include "protocol/gpu_messages.hpp"
#include "protocol/host_messages.hpp"
#include "protocol/json_bytes.hpp"
#include "protocol/optional_json.hpp"
#include "protocol/terminal_messages.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::json;

Json core_json(const Core& core) {
  return {{"package", core.package}, {"numa_node", core.numa_node}, {"pus", core.pus}};
}

Core core_of(const Json& json) {
  Core core;
  json.at("package").get_to(core.package);
  json.at("numa_node").get_to(core.numa_node);
  json.at("pus").get_to(core.pus);
  return core;
}

Json gpu_json(const Gpu& gpu) {
  return {{"visible", gpu.visible},
          {"uuid", gpu.uuid},
          {"pci_address", gpu.pci_address},
          {"name", gpu.name},
          {"memory_bytes", gpu.memory_bytes},
          {"numa_node", gpu.numa_node ? Json(*gpu.numa_node) : Json()}};
}

Gpu gpu_of(const Json& json) {
  Gpu gpu;
  json.at("visible").get_to(gpu.visible);
  json.at("uuid").get_to(gpu.uuid);
  json.at("pci_address").get_to(gpu.pci_address);
  json.at("name").get_to(gpu.name);
  json.at("memory_bytes").get_to(gpu.memory_bytes);
  if (const auto& node = json.at("numa_node"); !node.is_null()) gpu.numa_node = node.get<int>();
  return gpu;
}

std::string to_payload(const Json& json) {
  std::string payload;
  Json::to_cbor(json, payload);
  return payload;
}

}  // namespace

Json inventory_json(const HostInventory& inventory) {
  Json cores = Json::array();
  for (const auto& core : inventory.cores) cores.push_back(core_json(core));
  Json gpus = Json::array();
  for (const auto& gpu : inventory.gpus) gpus.push_back(gpu_json(gpu));
  return {{"cores", std::move(cores)},
          {"numa_nodes", inventory.numa_nodes},
          {"cpu_quota", or_null(inventory.cpu_quota)},
          {"gpus", std::move(gpus)},
          {"gpus_need_list", inventory.gpus_need_list},
          {"gpu_source", inventory.gpu_source},
          {"topology_file", inventory.topology_file},
          {"notes", inventory.notes}};
}

HostInventory inventory_of(const Json& json) {
  HostInventory inventory;
  for (const auto& core : json.at("cores")) inventory.cores.push_back(core_of(core));
  json.at("numa_nodes").get_to(inventory.numa_nodes);
  read_optional(json.at("cpu_quota"), inventory.cpu_quota);
  for (const auto& gpu : json.at("gpus")) inventory.gpus.push_back(gpu_of(gpu));
  json.at("gpus_need_list").get_to(inventory.gpus_need_list);
  json.at("gpu_source").get_to(inventory.gpu_source);
  json.at("topology_file").get_to(inventory.topology_file);
  json.at("notes").get_to(inventory.notes);
  return inventory;
}

static void read(const Json& json, ConfigureMessage& m) {
  json.at("protocol").get_to(m.protocol);
  m.version = text_of(json.at("version"));
  m.job_id = text_of(json.at("job_id"));
  json.at("agent").get_to(m.agent);
  json.at("restart_count").get_to(m.restart_count);
  m.pmix = static_cast<PmixMode>(json.at("pmix").get<int>());
  json.at("local_ranks").get_to(m.local_ranks);
  m.host_timeout = std::chrono::milliseconds(json.at("host_timeout_ms").get<std::int64_t>());
  m.names = text_list(json.at("names"));
}

std::string pack(const ConfigureMessage& m) {
  return to_payload({{"protocol", m.protocol},
                     {"version", bytes(m.version)},
                     {"job_id", bytes(m.job_id)},
                     {"agent", m.agent},
                     {"restart_count", m.restart_count},
                     {"pmix", static_cast<int>(m.pmix)},
                     {"local_ranks", m.local_ranks},
                     {"host_timeout_ms", m.host_timeout.count()},
                     {"names", bytes_list(m.names)}});
}

static void read(const Json& json, HelloMessage& m) {
  json.at("protocol").get_to(m.protocol);
  m.version = text_of(json.at("version"));
  m.host = text_of(json.at("host"));
  json.at("pid").get_to(m.pid);
  m.route = text_of(json.at("route"));
  if (const auto& inventory = json.at("inventory"); !inventory.is_null())
    m.inventory = inventory_of(inventory);
  if (const auto& facts = json.at("facts"); !facts.is_null()) m.facts = host_facts_of(facts);
  m.pmix_error = text_of(json.at("pmix_error"));
  json.at("ports").get_to(m.ports);
}

std::string pack(const HelloMessage& m) {
  return to_payload({{"protocol", m.protocol},
                     {"version", bytes(m.version)},
                     {"host", bytes(m.host)},
                     {"pid", m.pid},
                     {"route", bytes(m.route)},
                     {"inventory", m.inventory ? inventory_json(*m.inventory) : Json()},
                     {"facts", m.facts ? host_facts_json(*m.facts) : Json()},
                     {"pmix_error", bytes(m.pmix_error)},
                     {"ports", m.ports}});
}

static void read(const Json& json, HoldPortsMessage& m) {
  json.at("count").get_to(m.count);
  json.at("master_port").get_to(m.master_port);
}

std::string pack(const HoldPortsMessage& m) {
  return to_payload({{"count", m.count}, {"master_port", m.master_port}});
}

static void read(const Json& json, PortsMessage& m) {
  json.at("ports").get_to(m.ports);
}

std::string pack(const PortsMessage& m) {
  return to_payload({{"ports", m.ports}});
}

static Json rank_json(const LaunchRank& rank) {
  Json environment = Json::array();
  for (const auto& [name, value] : rank.environment)
    environment.push_back({bytes(name), bytes(value)});
  return {{"rank", rank.rank},
          {"local_rank", rank.local_rank},
          {"wants_input", rank.wants_input},
          {"inherits_input", rank.inherits_input},
          {"terminal", rank.terminal ? terminal_json(*rank.terminal) : Json()},
          {"environment", std::move(environment)},
          {"cpus", rank.cpus},
          {"numa_nodes", rank.numa_nodes}};
}

static LaunchRank rank_of(const Json& json) {
  LaunchRank rank;
  json.at("rank").get_to(rank.rank);
  json.at("local_rank").get_to(rank.local_rank);
  json.at("wants_input").get_to(rank.wants_input);
  json.at("inherits_input").get_to(rank.inherits_input);
  if (const auto& terminal = json.at("terminal"); !terminal.is_null())
    rank.terminal = terminal_of(terminal);
  for (const auto& pair : json.at("environment"))
    rank.environment.emplace_back(text_of(pair.at(0)), text_of(pair.at(1)));
  json.at("cpus").get_to(rank.cpus);
  json.at("numa_nodes").get_to(rank.numa_nodes);
  return rank;
}

static Json counters_json(const RankCounters& counters) {
  Json epochs = Json::array();
  for (const auto& epoch : counters.epochs)
    epochs.push_back({epoch.epoch, epoch.seconds, epoch.samples});
  Json metrics = Json::array();
  for (const auto& metric : counters.metrics) metrics.push_back({bytes(metric.name), metric.value});
  return {{"joined", counters.joined},
          {"steps", counters.steps},
          {"samples", counters.samples},
          {"collective_seconds", counters.collective_seconds},
          {"waiting_seconds", counters.waiting_seconds},
          {"epochs_over", counters.epochs_over},
          {"epochs", std::move(epochs)},
          {"metrics", std::move(metrics)},
          {"epoch", or_null(counters.epoch)},
          {"epochs_in_all", counters.epochs_in_all},
          {"steps_in_all", counters.steps_in_all},
          {"samples_per_second", counters.samples_per_second},
          {"had_to_stop", counters.had_to_stop}};
}

static RankCounters counters_of(const Json& json) {
  RankCounters counters;
  json.at("joined").get_to(counters.joined);
  json.at("steps").get_to(counters.steps);
  json.at("samples").get_to(counters.samples);
  json.at("collective_seconds").get_to(counters.collective_seconds);
  json.at("waiting_seconds").get_to(counters.waiting_seconds);
  json.at("epochs_over").get_to(counters.epochs_over);
  for (const auto& epoch : json.at("epochs"))
    counters.epochs.push_back({epoch.at(0).get<std::uint64_t>(), epoch.at(1).get<double>(),
                               epoch.at(2).get<std::uint64_t>()});
  read_optional(json.at("epoch"), counters.epoch);
  json.at("epochs_in_all").get_to(counters.epochs_in_all);
  json.at("steps_in_all").get_to(counters.steps_in_all);
  json.at("samples_per_second").get_to(counters.samples_per_second);
  json.at("had_to_stop").get_to(counters.had_to_stop);
  for (const auto& metric : json.at("metrics"))
    counters.metrics.push_back({text_of(metric.at(0)), metric.at(1).get<double>()});
  return counters;
}

static void read(const Json& json, LaunchMessage& m) {
  json.at("size").get_to(m.size);
  json.at("host_index").get_to(m.host_index);
  for (const auto& host : json.at("hosts"))
    m.hosts.push_back({text_of(host.at("name")), host.at("ranks").get<std::vector<int>>(),
                       text_of(host.at("address"))});
  m.pmix_namespace = text_of(json.at("pmix_namespace"));
  m.program = text_of(json.at("program"));
  m.arguments = text_list(json.at("arguments"));
  m.working_directory = text_of(json.at("working_directory"));
  m.environment = text_list(json.at("environment"));
  m.host_variables = text_list(json.at("host_variables"));
  for (const auto& limit : json.at("limits"))
    m.limits.push_back(
        {limit.at(0).get<int>(), {limit.at(1).get<rlim_t>(), limit.at(2).get<rlim_t>()}});
  read_optional(json.at("umask"), m.umask);
  json.at("niceness").get_to(m.niceness);
  for (const auto& rank : json.at("ranks")) m.ranks.push_back(rank_of(rank));
  m.mlx_hosts = text_of(json.at("mlx_hosts"));
  m.gpus = text_list(json.at("gpus"));
  json.at("kill_signal").get_to(m.kill_signal);
  m.grace = std::chrono::milliseconds(json.at("grace_ms").get<std::int64_t>());
  json.at("order_streams").get_to(m.order_streams);
  m.stall_time = std::chrono::milliseconds(json.at("stall_time_ms").get<std::int64_t>());
  m.progress_interval =
      std::chrono::milliseconds(json.at("progress_interval_ms").get<std::int64_t>());
}

std::string pack(const LaunchMessage& m) {
  Json hosts = Json::array();
  for (const auto& host : m.hosts)
    hosts.push_back(
        {{"name", bytes(host.name)}, {"address", bytes(host.address)}, {"ranks", host.ranks}});
  Json ranks = Json::array();
  for (const auto& rank : m.ranks) ranks.push_back(rank_json(rank));
  Json limits = Json::array();
  for (const auto& [resource, value] : m.limits)
    limits.push_back({resource, value.rlim_cur, value.rlim_max});
  return to_payload({{"size", m.size},
                     {"host_index", m.host_index},
                     {"hosts", std::move(hosts)},
                     {"pmix_namespace", bytes(m.pmix_namespace)},
                     {"program", bytes(m.program)},
                     {"arguments", bytes_list(m.arguments)},
                     {"working_directory", bytes(m.working_directory)},
                     {"environment", bytes_list(m.environment)},
                     {"host_variables", bytes_list(m.host_variables)},
                     {"limits", std::move(limits)},
                     {"umask", or_null(m.umask)},
                     {"niceness", m.niceness},
                     {"ranks", std::move(ranks)},
                     {"mlx_hosts", bytes(m.mlx_hosts)},
                     {"gpus", bytes_list(m.gpus)},
                     {"kill_signal", m.kill_signal},
                     {"grace_ms", m.grace.count()},
                     {"order_streams", m.order_streams},
                     {"stall_time_ms", m.stall_time.count()},
                     {"progress_interval_ms", m.progress_interval.count()}});
}

static void read(const Json& json, StartedMessage& m) {
  for (const auto& pair : json.at("pids"))
    m.pids.emplace_back(pair.at(0).get<int>(), pair.at(1).get<int>());
}

std::string pack(const StartedMessage& m) {
  Json pids = Json::array();
  for (const auto& [rank, pid] : m.pids) pids.push_back({rank, pid});
  return to_payload({{"pids", std::move(pids)}});
}

static Json failure_json(const RankFailure& failure) {
  return {{"reported", failure.reported},
          {"text", bytes(failure.text)},
          {"because_of_peer", failure.because_of_peer},
          {"before_stop", failure.before_stop},
          {"seconds_ago", failure.seconds_ago}};
}

static RankFailure failure_of(const Json& json) {
  RankFailure failure;
  json.at("reported").get_to(failure.reported);
  failure.text = text_of(json.at("text"));
  json.at("because_of_peer").get_to(failure.because_of_peer);
  json.at("before_stop").get_to(failure.before_stop);
  json.at("seconds_ago").get_to(failure.seconds_ago);
  return failure;
}

static void read(const Json& json, ExitedMessage& m) {
  json.at("rank").get_to(m.rank);
  json.at("wait_status").get_to(m.wait_status);
  json.at("before_stop").get_to(m.before_stop);
  json.at("lost_connection").get_to(m.lost_connection);
  json.at("out_of_memory").get_to(m.out_of_memory);
  json.at("seconds").get_to(m.seconds);
  json.at("user_seconds").get_to(m.user_seconds);
  json.at("system_seconds").get_to(m.system_seconds);
  json.at("peak_memory_bytes").get_to(m.peak_memory_bytes);
  json.at("input_taken").get_to(m.input_taken);
  m.last_error = text_of(json.at("last_error"));
  m.in_collective = text_of(json.at("in_collective"));
  m.counters = counters_of(json.at("counters"));
  m.failure = failure_of(json.at("failure"));
  json.at("agent_clock").get_to(m.agent_clock);
}

std::string pack(const ExitedMessage& m) {
  return to_payload({{"rank", m.rank},
                     {"wait_status", m.wait_status},
                     {"before_stop", m.before_stop},
                     {"lost_connection", m.lost_connection},
                     {"out_of_memory", m.out_of_memory},
                     {"seconds", m.seconds},
                     {"user_seconds", m.user_seconds},
                     {"system_seconds", m.system_seconds},
                     {"peak_memory_bytes", m.peak_memory_bytes},
                     {"input_taken", m.input_taken},
                     {"last_error", bytes(m.last_error)},
                     {"in_collective", bytes(m.in_collective)},
                     {"counters", counters_json(m.counters)},
                     {"failure", failure_json(m.failure)},
                     {"agent_clock", m.agent_clock}});
}

static void read(const Json& json, AbortedMessage& m) {
  json.at("rank").get_to(m.rank);
  json.at("code").get_to(m.code);
  m.text = text_of(json.at("text"));
}

std::string pack(const AbortedMessage& m) {
  return to_payload({{"rank", m.rank}, {"code", m.code}, {"text", bytes(m.text)}});
}

static void read(const Json& json, FailedMessage& m) {
  m.text = text_of(json.at("text"));
  json.at("exit_code").get_to(m.exit_code);
}

std::string pack(const FailedMessage& m) {
  return to_payload({{"text", bytes(m.text)}, {"exit_code", m.exit_code}});
}

static void read(const Json& json, StopMessage& m) {
  json.at("signal").get_to(m.signal);
  m.grace = std::chrono::milliseconds(json.at("grace_ms").get<std::int64_t>());
}

std::string pack(const StopMessage& m) {
  return to_payload({{"signal", m.signal}, {"grace_ms", m.grace.count()}});
}

static void read(const Json& json, StatesMessage& m) {
  for (const auto& item : json.at("ranks")) {
    RankState state;
    item.at("rank").get_to(state.rank);
    item.at("pid").get_to(state.pid);
    state.state = text_of(item.at("state"));
    item.at("step").get_to(state.step);
    item.at("epoch").get_to(state.epoch);
    state.collective = text_of(item.at("collective"));
    item.at("collective_seconds").get_to(state.collective_seconds);
    state.background = text_of(item.at("background"));
    item.at("background_seconds").get_to(state.background_seconds);
    state.background_missing = text_of(item.at("background_missing"));
    item.at("activity_pid").get_to(state.activity.pid);
    state.activity.program = text_of(item.at("program"));
    state.activity.system_call = text_of(item.at("system_call"));
    item.at("seconds").get_to(state.activity.seconds);
    item.at("cpu_seconds").get_to(state.activity.cpu_seconds);
    m.ranks.push_back(std::move(state));
  }
  m.purpose = static_cast<StatesPurpose>(json.at("purpose").get<std::uint32_t>());
}

std::string pack(const StatesMessage& m) {
  Json ranks = Json::array();
  for (const auto& state : m.ranks)
    ranks.push_back({{"rank", state.rank},
                     {"pid", state.pid},
                     {"state", bytes(state.state)},
                     {"step", state.step},
                     {"epoch", state.epoch},
                     {"collective", bytes(state.collective)},
                     {"collective_seconds", state.collective_seconds},
                     {"background", bytes(state.background)},
                     {"background_seconds", state.background_seconds},
                     {"background_missing", bytes(state.background_missing)},
                     {"activity_pid", state.activity.pid},
                     {"program", bytes(state.activity.program)},
                     {"system_call", bytes(state.activity.system_call)},
                     {"seconds", state.activity.seconds},
                     {"cpu_seconds", state.activity.cpu_seconds}});
  return to_payload(
      {{"ranks", std::move(ranks)}, {"purpose", static_cast<std::uint32_t>(m.purpose)}});
}

static std::vector<StallsMessage::Wait> waits_of(const Json& json) {
  std::vector<StallsMessage::Wait> waits;
  for (const auto& wait : json)
    waits.push_back({wait.at(0).get<int>(), text_of(wait.at(1)), wait.at(2).get<bool>()});
  return waits;
}

static Json waits_json(const std::vector<StallsMessage::Wait>& waits) {
  Json json = Json::array();
  for (const auto& wait : waits)
    json.push_back({wait.rank, bytes(wait.collective), wait.completed});
  return json;
}

static void read(const Json& json, StallsMessage& m) {
  m.begun = waits_of(json.at("begun"));
  m.over = waits_of(json.at("over"));
}

std::string pack(const StallsMessage& m) {
  return to_payload({{"begun", waits_json(m.begun)}, {"over", waits_json(m.over)}});
}

static void read(const Json& json, ProgressMessage& m) {
  json.at("called_init").get_to(m.host.called_init);
  json.at("in_init").get_to(m.host.in_init);
  read_optional(json.at("rank"), m.host.rank);
  json.at("reporting").get_to(m.host.reporting);
  Progress& progress = m.host.progress;
  read_optional(json.at("epoch"), progress.epoch);
  read_optional(json.at("epochs"), progress.epochs);
  read_optional(json.at("step"), progress.step);
  read_optional(json.at("steps"), progress.steps);
  read_optional(json.at("samples_per_second"), progress.samples_per_second);
  read_optional(json.at("loss"), progress.loss);
  read_optional(json.at("waiting"), progress.waiting);
  read_optional(json.at("seconds_left"), progress.seconds_left);
}

std::string pack(const ProgressMessage& m) {
  const Progress& progress = m.host.progress;
  return to_payload({{"called_init", m.host.called_init},
                     {"in_init", m.host.in_init},
                     {"rank", or_null(m.host.rank)},
                     {"reporting", m.host.reporting},
                     {"epoch", or_null(progress.epoch)},
                     {"epochs", or_null(progress.epochs)},
                     {"step", or_null(progress.step)},
                     {"steps", or_null(progress.steps)},
                     {"samples_per_second", or_null(progress.samples_per_second)},
                     {"loss", or_null(progress.loss)},
                     {"waiting", or_null(progress.waiting)},
                     {"seconds_left", or_null(progress.seconds_left)}});
}

static void read(const Json& json, ApartMessage& m) {
  json.at("lacks_tf_config").get_to(m.lacks_tf_config);
  json.at("uses_mpich").get_to(m.uses_mpich);
}

static Json apart_json(const ApartMessage& m) {
  return {{"lacks_tf_config", m.lacks_tf_config}, {"uses_mpich", m.uses_mpich}};
}

std::string pack(const ApartMessage& m) {
  return to_payload(apart_json(m));
}

static void read(const Json& json, DoneMessage& m) {
  m.leftovers = text_list(json.at("leftovers"));
  m.gpus = gpu_record_of(json.at("gpus"));
  json.at("ranks_joined").get_to(m.ranks_joined);
  read(json.at("apart"), m.apart);
}

std::string pack(const DoneMessage& m) {
  return to_payload({{"leftovers", bytes_list(m.leftovers)},
                     {"gpus", gpu_record_json(m.gpus)},
                     {"ranks_joined", m.ranks_joined},
                     {"apart", apart_json(m.apart)}});
}

template <class T>
Result<T> parse(std::string_view payload) {
  // The JSON library throws. No exception leaves this function.
  try {
    if (is_nested_too_deeply(payload))
      return fail("malformed message on the link: it is nested too deeply");
    T message;
    read(Json::from_cbor(payload.begin(), payload.end()), message);
    return message;
  } catch (const Json::exception& error) {
    return fail(std::string("malformed message on the link: ") + error.what());
  }
}

template Result<ConfigureMessage> parse(std::string_view);
template Result<HelloMessage> parse(std::string_view);
template Result<HoldPortsMessage> parse(std::string_view);
template Result<PortsMessage> parse(std::string_view);
template Result<LaunchMessage> parse(std::string_view);
template Result<StartedMessage> parse(std::string_view);
template Result<ExitedMessage> parse(std::string_view);
template Result<AbortedMessage> parse(std::string_view);
template Result<FailedMessage> parse(std::string_view);
template Result<StopMessage> parse(std::string_view);
template Result<StatesMessage> parse(std::string_view);
template Result<StallsMessage> parse(std::string_view);
template Result<ProgressMessage> parse(std::string_view);
template Result<ApartMessage> parse(std::string_view);
template Result<DoneMessage> parse(std::string_view);

std::string pack_output_header(const OutputHeader& header) {
  std::string packed(kOutputHeaderSize, '\0');
  wire::store(packed.data(), header.rank);
  wire::store(packed.data() + 4, header.stream);
  wire::store(packed.data() + 5, header.milliseconds);
  return packed;
}

Result<OutputMessage> parse_output(std::string_view payload) {
  if (payload.size() < kOutputHeaderSize) return fail("an output frame on the link is cut short");
  OutputMessage message;
  message.header.rank = wire::load<std::uint32_t>(payload.data());
  message.header.stream = wire::load<std::uint8_t>(payload.data() + 4);
  message.header.milliseconds = wire::load<std::uint64_t>(payload.data() + 5);
  message.bytes = payload.substr(kOutputHeaderSize);
  return message;
}

std::string pack_input(std::uint32_t rank, std::string_view bytes) {
  std::string packed = pack_number(rank);
  packed += bytes;
  return packed;
}

Result<InputMessage> parse_input(std::string_view payload) {
  if (payload.size() < 4) return fail("an input frame on the link is cut short");
  return InputMessage{wire::load<std::uint32_t>(payload.data()), payload.substr(4)};
}

std::string pack_input_credit(const InputCredit& credit) {
  return pack_number(credit.rank) + pack_number(credit.bytes);
}

Result<InputCredit> parse_input_credit(std::string_view payload) {
  if (payload.size() != 8) return fail("an input credit on the link has the wrong length");
  return InputCredit{wire::load<std::uint32_t>(payload.data()),
                     wire::load<std::uint32_t>(payload.data() + 4)};
}

std::string pack_number(std::uint32_t value) {
  std::string packed(4, '\0');
  wire::store(packed.data(), value);
  return packed;
}

Result<std::uint32_t> parse_number(std::string_view payload) {
  if (payload.size() != 4) return fail("a frame on the link has the wrong length");
  return wire::load<std::uint32_t>(payload.data());
}

}  // namespace hvdrun
