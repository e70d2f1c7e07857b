#include "protocol/messages.hpp"

#include "protocol/message_fields.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

LaunchMessage example_launch() {
  LaunchMessage m;
  m.size = 3;
  m.host_index = 1;
  m.hosts = {{"n1", {0, 1}}, {"n2", {2}, "10.0.0.2"}, {"spare \xff", {}, ""}};
  m.pmix_namespace = "hvd-0123";
  m.program = "/bin/train";
  m.arguments = {"train", "--name", "bytes \xff\n that are no UTF-8"};
  m.working_directory = "/home/\xe9";
  m.environment = {"A=1", "B=two\nlines", std::string("C=") + std::string(128 << 10, 'x')};
  LaunchRank rank;
  rank.rank = 2;
  rank.wants_input = true;
  rank.terminal.emplace();
  rank.terminal->size = {30, 100};
  rank.terminal->modes.c_iflag = IUTF8 | IXON;
  rank.terminal->modes.c_oflag = OPOST;
  rank.terminal->modes.c_cflag = CS8;
  rank.terminal->modes.c_lflag = ISIG | ICANON;
  rank.terminal->modes.c_cc[VERASE] = 127;
  rank.environment = {{"HVD_RANK", "2"}};
  rank.cpus = {4, 5};
  rank.numa_nodes = {1};
  m.ranks = {rank};
  m.gpus = {"GPU-1", "MIG-2"};
  m.limits = {{RLIMIT_CORE, {0, RLIM_INFINITY}}};
  m.kill_signal = 15;
  m.grace = std::chrono::milliseconds(250);
  m.stall_time = std::chrono::milliseconds(60'001);
  m.join_time = std::chrono::milliseconds(60'002);
  m.progress_interval = std::chrono::milliseconds(251);
  m.elastic = true;
  m.key = "00ff";
  return m;
}

TEST(Messages, HostsThatContradictTheirNumbersAreCutShort) {
  const LaunchHostColumns columns{"a", "", {SIZE_MAX, 1}, {7, 8}};
  std::vector<LaunchHost> hosts;
  from_json(json_fields::to_json(columns), hosts);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].ranks, (std::vector{7, 8}));
  EXPECT_EQ(hosts[1].name, "");
  EXPECT_TRUE(hosts[1].ranks.empty());
}

TEST(Messages, AnAgentLearnsWhosePlaceItTakes) {
  ConfigureMessage message;
  EXPECT_EQ(parse<ConfigureMessage>(pack(message))->predecessor, std::nullopt);
  message.predecessor = 3;
  message.devices = {{"CUDA_VISIBLE_DEVICES", "0,1", true}};
  EXPECT_EQ(parse<ConfigureMessage>(pack(message))->predecessor, 3u);
  EXPECT_EQ(parse<ConfigureMessage>(pack(message))->devices, message.devices);
}

TEST(Messages, LaunchMessageRoundTrips) {
  const auto sent = example_launch();
  const auto got = parse<LaunchMessage>(pack(sent));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->size, 3);
  EXPECT_EQ(got->host_index, 1);
  ASSERT_EQ(got->hosts.size(), 3u);
  for (std::size_t i = 0; i < sent.hosts.size(); ++i) {
    EXPECT_EQ(got->hosts[i].name, sent.hosts[i].name);
    EXPECT_EQ(got->hosts[i].address, sent.hosts[i].address);
    EXPECT_EQ(got->hosts[i].ranks, sent.hosts[i].ranks);
  }
  EXPECT_EQ(got->pmix_namespace, sent.pmix_namespace);
  EXPECT_TRUE(got->elastic);
  EXPECT_EQ(got->key, "00ff");
  EXPECT_EQ(got->arguments, sent.arguments);
  EXPECT_EQ(got->working_directory, sent.working_directory);
  EXPECT_EQ(got->environment, sent.environment);
  ASSERT_EQ(got->limits.size(), 1u);
  EXPECT_EQ(got->limits[0].resource, RLIMIT_CORE);
  EXPECT_EQ(got->limits[0].value.rlim_cur, 0u);
  EXPECT_EQ(got->limits[0].value.rlim_max, RLIM_INFINITY);
  ASSERT_EQ(got->ranks.size(), 1u);
  EXPECT_EQ(got->ranks[0].environment, sent.ranks[0].environment);
  EXPECT_EQ(got->ranks[0].cpus, sent.ranks[0].cpus);
  EXPECT_EQ(got->ranks[0].numa_nodes, sent.ranks[0].numa_nodes);
  EXPECT_TRUE(got->ranks[0].wants_input);
  ASSERT_TRUE(got->ranks[0].terminal);
  EXPECT_EQ(got->ranks[0].terminal->size.columns, 100);
  EXPECT_EQ(got->ranks[0].terminal->modes.c_iflag, IUTF8 | IXON);
  EXPECT_EQ(got->ranks[0].terminal->modes.c_oflag, OPOST);
  EXPECT_EQ(got->ranks[0].terminal->modes.c_cflag, CS8);
  EXPECT_EQ(got->ranks[0].terminal->modes.c_lflag, ISIG | ICANON);
  EXPECT_EQ(got->ranks[0].terminal->modes.c_cc[VERASE], 127);
  EXPECT_EQ(got->gpus, sent.gpus);
  EXPECT_EQ(got->kill_signal, 15);
  EXPECT_EQ(got->grace.count(), 250);
  EXPECT_EQ(got->stall_time.count(), 60'001);
  EXPECT_EQ(got->join_time.count(), 60'002);
  EXPECT_EQ(got->progress_interval.count(), 251);
}

TEST(Messages, OtherMessagesRoundTrip) {
  HelloMessage greeting{1, "0.1", "n1", 7, "a > b", {}, "no PMIx", {4000, 4001}};
  auto hello = parse<HelloMessage>(pack(greeting));
  ASSERT_TRUE(hello) << hello.error().message;
  EXPECT_EQ(hello->host, "n1");
  EXPECT_EQ(hello->route, "a > b");
  EXPECT_EQ(hello->pmix_error, "no PMIx");
  EXPECT_EQ(hello->ports, (std::vector{4000, 4001}));
  EXPECT_FALSE(hello->inventory);
  EXPECT_FALSE(hello->facts);
  greeting.facts = HostFacts{"boot mnt", "10.0.0.2", "10.0.0.1", {"lo", "eth\xff"}, {"w1"}};
  hello = parse<HelloMessage>(pack(greeting));
  ASSERT_TRUE(hello && hello->facts);
  EXPECT_EQ(hello->facts->machine, "boot mnt");
  EXPECT_EQ(hello->facts->address, "10.0.0.2");
  EXPECT_EQ(hello->facts->launcher_address, "10.0.0.1");
  EXPECT_EQ(hello->facts->interfaces, (std::vector<std::string>{"lo", "eth\xff"}));
  EXPECT_EQ(hello->facts->unresolved, std::vector<std::string>{"w1"});
  greeting.inventory.emplace();
  greeting.inventory->cores = {{1, 2, {3, 7}, 5, 1}};
  greeting.inventory->gpus = {{"0", "GPU-1", "0000:3b:00.0", "NVIDIA H200", 1ull << 37, 1, {3}},
                              {"1", "", "", "", 0, {}}};
  greeting.inventory->gpus[1].watched_as = "MIG-1";
  greeting.inventory->gpu_vendor = "NVIDIA";
  greeting.inventory->single_because = "a reason";
  greeting.inventory->notes = {"a note"};
  hello = parse<HelloMessage>(pack(greeting));
  ASSERT_TRUE(hello && hello->inventory);
  EXPECT_EQ(hello->inventory->cores[0].pus, (std::vector{3, 7}));
  EXPECT_EQ(hello->inventory->cores[0].numa_node, 2);
  EXPECT_EQ(hello->inventory->cores[0].l3_cache, 5);
  EXPECT_EQ(hello->inventory->cores[0].kind, 1);
  EXPECT_EQ(hello->inventory->gpus[0].near_cpus, std::vector{3});
  EXPECT_EQ(hello->inventory->gpus[0].memory_bytes, 1ull << 37);
  EXPECT_EQ(hello->inventory->gpus[0].numa_node, 1);
  EXPECT_FALSE(hello->inventory->gpus[1].numa_node);
  EXPECT_EQ(hello->inventory->gpus[1].watched_as, "MIG-1");
  EXPECT_EQ(hello->inventory->gpu_vendor, "NVIDIA");
  EXPECT_EQ(hello->inventory->single_because, "a reason");
  EXPECT_EQ(hello->inventory->notes, greeting.inventory->notes);

  const auto wanted = parse<HoldPortsMessage>(pack(HoldPortsMessage{3, 29500}));
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->count, 3);
  EXPECT_EQ(wanted->master_port, 29500);
  const auto ports = parse<PortsMessage>(pack(PortsMessage{{29500, 40000}}));
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->ports, (std::vector{29500, 40000}));

  const auto started = parse<StartedMessage>(pack(StartedMessage{{{0, 10}, {1, 11}}}));
  ASSERT_TRUE(started);
  EXPECT_EQ(started->pids, (std::vector<std::pair<int, int>>{{0, 10}, {1, 11}}));

  ExitedMessage exited;
  exited.rank = 4;
  exited.wait_status = 9;
  exited.before_stop = true;
  exited.dev_shm_is_full = true;
  exited.peak_memory_bytes = 1ull << 40;
  exited.last_error = "rank 1 has left";
  exited.counters = {true, 5,  640, 2.5, 1.5, 12, {{11, 0.25, 64}}, {{"loss", std::nan("")}},
                     11,   20, 50,  80.5};
  exited.agent_clock = 17.25;
  exited.failure = {true, "Traceback\nValueError: \xff", true, true, 0.5};
  const auto got = parse<ExitedMessage>(pack(exited));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->wait_status, 9);
  EXPECT_TRUE(got->before_stop);
  EXPECT_TRUE(got->dev_shm_is_full);
  EXPECT_EQ(got->peak_memory_bytes, 1ull << 40);
  EXPECT_EQ(got->last_error, "rank 1 has left");
  EXPECT_TRUE(got->failure.reported);
  EXPECT_EQ(got->failure.text, "Traceback\nValueError: \xff");
  EXPECT_TRUE(got->failure.because_of_peer);
  EXPECT_TRUE(got->failure.before_stop);
  EXPECT_EQ(got->failure.seconds_ago, 0.5);
  EXPECT_EQ(got->agent_clock, 17.25);
  EXPECT_TRUE(got->counters.joined);
  EXPECT_EQ(got->counters.epoch, 11u);
  EXPECT_EQ(got->counters.epochs_in_all, 20u);
  EXPECT_EQ(got->counters.steps_in_all, 50u);
  EXPECT_EQ(got->counters.samples_per_second, 80.5);
  EXPECT_EQ(got->counters.steps, 5u);
  EXPECT_EQ(got->counters.samples, 640u);
  EXPECT_EQ(got->counters.collective_seconds, 2.5);
  EXPECT_EQ(got->counters.waiting_seconds, 1.5);
  EXPECT_EQ(got->counters.epochs_over, 12u);
  ASSERT_EQ(got->counters.epochs.size(), 1u);
  EXPECT_EQ(got->counters.epochs[0].epoch, 11u);
  EXPECT_EQ(got->counters.epochs[0].seconds, 0.25);
  EXPECT_EQ(got->counters.epochs[0].samples, 64u);
  ASSERT_EQ(got->counters.metrics.size(), 1u);
  EXPECT_EQ(got->counters.metrics[0].name, "loss");
  EXPECT_TRUE(std::isnan(got->counters.metrics[0].value));

  EXPECT_EQ(parse<AbortedMessage>(pack(AbortedMessage{1, -7, "why"}))->code, -7);
  EXPECT_EQ(parse<FailedMessage>(pack(FailedMessage{"no", 127}))->exit_code, 127);
  EXPECT_EQ(parse<StopMessage>(pack(StopMessage{15, std::chrono::seconds(5)}))->grace.count(),
            5000);
  GpuUse use;
  use.uuid = "GPU-1";
  use.samples = 7;
  use.busy_percent = 62.5;
  use.peak_memory_bytes = 1ull << 36;
  use.peak_celsius = -3;
  use.mean_watts = 612.5;
  use.peak_watts = 700;
  use.throttling = Throttling{7, {1, 2, 3, 4, 5, 6, 7}};
  GpuUse unknown;
  unknown.uuid = "MIG-1";
  const auto done = parse<DoneMessage>(
      pack(DoneMessage{{"pid 1 (x)"}, {{use, unknown}, {{3, 1ull << 35}, {5, 1}}, true}}));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->leftovers.size(), 1u);
  const auto& [gpus, rank_memory, rank_drove_all] = done->gpus;
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].uuid, "GPU-1");
  EXPECT_EQ(gpus[0].samples, 7u);
  EXPECT_EQ(gpus[0].busy_percent, 62.5);
  EXPECT_EQ(gpus[0].peak_memory_bytes, 1ull << 36);
  EXPECT_EQ(gpus[0].peak_celsius, -3);
  EXPECT_EQ(gpus[0].mean_watts, 612.5);
  EXPECT_EQ(gpus[0].peak_watts, 700);
  ASSERT_TRUE(gpus[0].throttling);
  EXPECT_EQ(gpus[0].throttling->samples, 7u);
  EXPECT_EQ(gpus[0].throttling->seen, use.throttling->seen);
  EXPECT_EQ(gpus[1].uuid, "MIG-1");
  EXPECT_EQ(gpus[1].busy_percent, std::nullopt);
  EXPECT_EQ(gpus[1].peak_memory_bytes, std::nullopt);
  EXPECT_EQ(gpus[1].peak_celsius, std::nullopt);
  EXPECT_EQ(gpus[1].mean_watts, std::nullopt);
  EXPECT_EQ(gpus[1].peak_watts, std::nullopt);
  EXPECT_FALSE(gpus[1].throttling);
  EXPECT_EQ(rank_memory, (std::map<int, std::uint64_t>{{3, 1ull << 35}, {5, 1}}));
  EXPECT_TRUE(rank_drove_all);
  EXPECT_TRUE(done->ranks_joined);
  EXPECT_FALSE(done->apart.lacks_tf_config);
  const auto apart = parse<ApartMessage>(pack(ApartMessage{true, true, true, true}));
  EXPECT_TRUE(apart && apart->lacks_tf_config && apart->uses_mpich && apart->lacks_pmix &&
              apart->joined);
  RankState state{3, 30, "R", 5, 1, "allreduce", 2.5, 42, "broadcast w", 7.5, "1-2"};
  state.activity = {31, "py\xff", "futex", 9.5, 0.25};
  const auto states =
      parse<AnswerMessage>(pack(AnswerMessage{17, {state}, 2.5, {}, {"{}"}, "no time", true}));
  ASSERT_TRUE(states);
  EXPECT_EQ(states->number, 17U);
  EXPECT_EQ(states->clock, 2.5);
  EXPECT_EQ(states->looks, std::vector<std::string>{"{}"});
  EXPECT_EQ(states->problem, "no time");
  EXPECT_TRUE(states->more);
  EXPECT_EQ(states->ranks[0].background, "broadcast w");
  EXPECT_EQ(states->ranks[0].background_seconds, 7.5);
  EXPECT_EQ(states->ranks[0].background_missing, "1-2");
  const RankActivity& activity = states->ranks[0].activity;
  EXPECT_EQ(activity.pid, 31);
  EXPECT_EQ(activity.program, "py\xff");
  EXPECT_EQ(activity.system_call, "futex");
  EXPECT_EQ(activity.seconds, 9.5);
  EXPECT_EQ(activity.cpu_seconds, 0.25);
  EXPECT_EQ(states->ranks[0].step, 5u);
  EXPECT_EQ(states->ranks[0].collective, "allreduce");
  const auto stalls = parse<StallsMessage>(pack(StallsMessage{
      {{3, "allreduce \xff", false}, {4, "barrier", false}}, {{5, "broadcast w", true}}}));
  ASSERT_TRUE(stalls);
  ASSERT_EQ(stalls->begun.size(), 2u);
  EXPECT_EQ(stalls->begun[0].rank, 3);
  EXPECT_EQ(stalls->begun[0].collective, "allreduce \xff");
  ASSERT_EQ(stalls->over.size(), 1u);
  EXPECT_EQ(stalls->over[0].collective, "broadcast w");
  EXPECT_TRUE(stalls->over[0].completed);
}

TEST(Messages, ProgressKeepsUnknownValues) {
  HostProgress host;
  host.called_init = 3;
  host.in_init = 1;
  const auto unknown = parse<ProgressMessage>(pack(ProgressMessage{host}));
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->host.called_init, 3);
  EXPECT_EQ(unknown->host.in_init, 1);
  EXPECT_FALSE(unknown->host.rank);
  EXPECT_EQ(unknown->host.progress, Progress{});
  host.rank = 4;
  host.reporting = 2;
  host.progress = {2, 20, 1204, 9380, 7346.5, 0.12, 0.25, 14.5};
  const auto known = parse<ProgressMessage>(pack(ProgressMessage{host}));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->host.rank, 4);
  EXPECT_EQ(known->host.reporting, 2);
  EXPECT_EQ(known->host.progress, host.progress);
}

TEST(Messages, EveryIncompleteMessageIsRefused) {
  auto launch = example_launch();
  launch.environment.pop_back();  // for fewer prefixes
  const auto payload = pack(launch);
  for (std::size_t size = 0; size < payload.size(); ++size)
    ASSERT_FALSE(parse<LaunchMessage>(payload.substr(0, size))) << "prefix of " << size;
}

TEST(Messages, MessageOfAnotherTypeIsRefused) {
  EXPECT_FALSE(parse<LaunchMessage>(pack(StopMessage{15, std::chrono::seconds(1)})));
  EXPECT_FALSE(parse<StopMessage>("not CBOR at all"));
}

TEST(Messages, BinaryMessagesRoundTrip) {
  auto payload = pack_output_header({7, 2, 1234567890123});
  ASSERT_EQ(payload.size(), kOutputHeaderSize);
  payload += "text";
  const auto output = parse_output(payload);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->header.rank, 7u);
  EXPECT_EQ(output->header.stream, 2);
  EXPECT_EQ(output->header.milliseconds, 1234567890123u);
  EXPECT_EQ(output->bytes, "text");
  EXPECT_FALSE(parse_output("short"));

  EXPECT_EQ(parse_input(pack_input(3, "abc"))->bytes, "abc");
  EXPECT_FALSE(parse_input("abc"));
  EXPECT_EQ(*parse_number(pack_number(0xdeadbeef)), 0xdeadbeefu);
  EXPECT_FALSE(parse_number("12345"));
  EXPECT_EQ(parse_input_credit(pack_input_credit({1, 2}))->bytes, 2u);
  EXPECT_FALSE(parse_input_credit("1234"));
}

TEST(Messages, DeepNestingIsMalformed) {
  // Nests a list of one element, a list of indefinite length, and a map with one key.
  for (const std::string level : {"\x81", "\x9f", "\xa1\x61x"}) {
    std::string nested;
    while (nested.size() < 1'000'000) nested += level;
    const auto got = parse<HelloMessage>(nested);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message, "malformed message on the link: it is nested too deeply");
  }
}

}  // namespace
}  // namespace hvdrun
