#include "resources/place.hpp"

#include "fake_jobs.hpp"
#include "resources/count_ranks.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Returns the number of ranks of each host, such as "n1:4 n2:3".
std::string brief(const Placement& placement) {
  std::string text;
  for (const auto& host : placement.hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", host.host, host.ranks.size());
  return text;
}

TEST(Place, KnowsWhereRanksShareCores) {
  const auto shares = [](int ranks, std::size_t cores, std::optional<double> quota) {
    auto allocation = allocation_of({cpu_host(static_cast<int>(cores))});
    allocation.hosts[0].inventory->cpu_quota = quota;
    const auto placement = place(job(ranks), allocation);
    return placement && placement->hosts.at(0).shares_cores;
  };
  EXPECT_FALSE(shares(4, 4, {}));
  EXPECT_TRUE(shares(5, 4, {}));
  EXPECT_FALSE(shares(2, 4, 2));
  EXPECT_TRUE(shares(3, 4, 2.5));
}

struct CountCase {
  const char* what;
  std::vector<FakeHost> hosts;
  std::optional<int> ranks;
  std::optional<int> ranks_per_host;
  bool oversubscribe;
  const char* expected;
};

TEST(Place, DecidesHowManyRanksEachHostGets) {
  const std::vector<FakeHost> uneven = {cpu_host("n1", 4), cpu_host("n2", 2), cpu_host("n3", 3)};
  const CountCase cases[] = {
      {"one per slot", {cpu_host(4)}, {}, {}, false, "n1:4"},
      {"one per GPU", {gpu_host()}, {}, {}, false, "n1:8"},
      {"fewer than slots", {gpu_host()}, 3, {}, false, "n1:3"},
      {"more than cores", {cpu_host(2)}, 8, {}, false, "n1:8"},
      {"more than GPUs, oversubscribed", {gpu_host()}, 16, {}, true, "n1:16"},
      {"more than -H, oversubscribed", {requested(cpu_host(4), 2)}, 5, {}, true, "n1:5"},
      {"-H beyond cores", {requested(cpu_host(2), 8)}, {}, {}, false, "n1:8"},
      {"ranks per host", {gpu_host()}, {}, 1, false, "n1:1"},
      {"ranks per host beyond cores", {cpu_host(2)}, {}, 5, false, "n1:5"},
      {"uneven hosts", uneven, {}, {}, false, "n1:4 n2:2 n3:3"},
      {"hosts fill in order", uneven, 5, {}, false, "n1:4 n2:1"},
      {"the rest is dealt round-robin", uneven, 13, {}, false, "n1:6 n2:3 n3:4"},
      {"the rest is dealt to hosts without a limit",
       {requested(cpu_host("n1", 4), 2), cpu_host("n2", 1)},
       6,
       {},
       false,
       "n1:2 n2:4"},
      {"ranks per host on many", uneven, {}, 2, false, "n1:2 n2:2 n3:2"},
      {"ranks per host and -np", uneven, 3, 2, false, "n1:2 n2:1"},
      {"the most on a host", {cpu_host(2)}, kMaxRanksPerHost, {}, false, "n1:100000"},
  };
  for (const auto& test : cases) {
    JobSpec spec = job(test.ranks);
    spec.ranks_per_host = test.ranks_per_host;
    spec.oversubscribe = test.oversubscribe;
    const auto placement = place(spec, allocation_of(test.hosts));
    ASSERT_TRUE(placement) << test.what << ": " << placement.error().message;
    EXPECT_EQ(brief(*placement), test.expected) << test.what;
  }
}

struct DealCase {
  const char* what;
  std::vector<FakeHost> hosts;
  std::optional<int> ranks;
  std::optional<int> ranks_per_host;
  bool nodes;  // whether --nnodes names all these hosts
  MapBy map_by;
  const char* expected;  // the ranks of each host
};

// Returns the ranks of each host, such as "n1:0,2 n2:1".
std::string numbered(const Placement& placement) {
  std::string text;
  for (const auto& host : placement.hosts) {
    text += (text.empty() ? "" : " ") + host.host + ":";
    for (const auto& rank : host.ranks)
      text += (rank.local_rank == 0 ? "" : ",") + std::to_string(rank.rank);
  }
  return text;
}

TEST(Place, NumbersRanksBySlotOrByNode) {
  const std::vector<FakeHost> uneven = {cpu_host("n1", 4), cpu_host("n2", 1), cpu_host("n3", 2)};
  const DealCase cases[] = {
      {"by slot", uneven, {}, {}, false, MapBy::slot, "n1:0,1,2,3 n2:4 n3:5,6"},
      {"by node", uneven, {}, {}, false, MapBy::node, "n1:0,3,5,6 n2:1 n3:2,4"},
      {"by node, fewer than hosts", uneven, 2, {}, false, MapBy::node, "n1:0 n2:1"},
      {"by node, beyond the slots",
       uneven,
       10,
       {},
       false,
       MapBy::node,
       "n1:0,3,6,8,9 n2:1,4 n3:2,5,7"},
      {"by node, K per host", uneven, {}, 2, false, MapBy::node, "n1:0,3 n2:1,4 n3:2,5"},
      {"by node, K per host and -np", uneven, 4, 2, false, MapBy::node, "n1:0,3 n2:1 n3:2"},
      {"on all hosts evenly, by slot", uneven, 5, {}, true, MapBy::slot, "n1:0,1 n2:2 n3:3,4"},
      {"on all hosts evenly, by node", uneven, 5, {}, true, MapBy::node, "n1:0,3 n2:1 n3:2,4"},
      {"on all hosts, one per slot", uneven, {}, {}, true, MapBy::slot, "n1:0,1,2,3 n2:4 n3:5,6"},
  };
  for (const auto& test : cases) {
    JobSpec spec = job(test.ranks);
    spec.ranks_per_host = test.ranks_per_host;
    spec.map_by = test.map_by;
    if (test.nodes) spec.nodes = static_cast<int>(test.hosts.size());
    const auto placement = place(spec, allocation_of(test.hosts));
    ASSERT_TRUE(placement) << test.what << ": " << placement.error().message;
    EXPECT_EQ(numbered(*placement), test.expected) << test.what;
  }
}

// Spares are dealt out to hosts without ranks, and then to the slots that the others have left.
TEST(Place, SparesGoToHostsWithoutRanksFirst) {
  const auto hosts = std::vector{cpu_host("n1", 4), cpu_host("n2", 3), cpu_host("n3", 2)};
  struct Case {
    int ranks;
    int spares;
    std::vector<std::vector<int>> slots;  // by host: the local ranks of its spares
  };
  for (auto test :
       {Case{5, 1, {{}, {}, {0}}}, Case{5, 3, {{}, {1}, {0, 1}}}, Case{2, 2, {{}, {0}, {0}}},
        Case{2, 6, {{2}, {0, 1, 2}, {0, 1}}}, Case{7, 9, {{}, {}, {0, 1}}},
        Case{8, 1, {{}, {}, {1}}}, Case{9, 2, {{}, {}, {}}}}) {
    JobSpec spec = job(test.ranks);
    spec.elastic.spares = test.spares;
    const auto placement = place(spec, allocation_of(hosts));
    ASSERT_TRUE(placement) << placement.error().message;
    EXPECT_EQ(placement->size, test.ranks);
    ASSERT_EQ(placement->hosts.size(), test.slots.size());
    for (std::size_t host = 0; host < placement->hosts.size(); ++host) {
      std::vector<int> slots;
      for (const auto& spare : placement->hosts[host].spares) slots.push_back(spare.local_rank);
      EXPECT_EQ(slots, test.slots[host]) << test.ranks << " " << test.spares;
      test.spares -= static_cast<int>(slots.size());
    }
    EXPECT_EQ(std::ranges::count_if(
                  placement->notes,
                  [](const auto& note) { return note.find("no slot") != std::string::npos; }),
              test.spares > 0 ? 1 : 0);
  }
}

TEST(Place, AHostThatHasOnlySparesIsNoneOfTheRanks) {
  JobSpec spec = job(2);
  spec.map_by = MapBy::node;
  spec.elastic.spares = 1;
  const auto placement =
      place(spec, allocation_of({cpu_host("n1", 2), cpu_host("n2", 2), cpu_host("n3", 2)}));
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(brief(*placement), "n1:1 n2:1 n3:0");
  EXPECT_EQ(placement->hosts_with_ranks(), 2u);
  EXPECT_TRUE(placement->homogeneous());
  EXPECT_EQ(placement->hosts[2].spares.size(), 1u);
  EXPECT_EQ(placement->notes, std::vector<std::string>{"n3 has only spares (--spares)"});
}

// Any host may be the one for a spare.
TEST(Place, AsksForSlotsThatSparesNeed) {
  JobSpec spec = job(2);
  auto allocation = allocation_of({cpu_host("n1", 2), cpu_host("n2", 2)});
  allocation.hosts[1].inventory.reset();
  allocation.hosts[1].slots.reset();
  EXPECT_TRUE(place(spec, allocation)->to_ask.empty());
  spec.elastic.spares = 1;
  EXPECT_EQ(place(spec, allocation)->to_ask, std::vector<std::string>{"n2"});
  spec.ranks.reset();
  spec.ranks_per_host = 1;
  EXPECT_TRUE(place(spec, allocation)->to_ask.empty()) << "each host has ranks";
}

TEST(Place, SaysHowToGiveSparesSlots) {
  JobSpec spec = job(2);
  spec.elastic.spares = 1;
  auto allocation = allocation_of({cpu_host("n1", 2)});
  allocation.from = HostSource::request;
  allocation.hosts.front().address = "n1";
  const std::string text =
      "1 of 1 spares (--spares) has no slot: a spare needs one besides those of the ranks ";
  EXPECT_EQ(place(spec, allocation)->notes.back(), text + "(-H n1:3)");
  allocation.hosts.front().is_this_machine = true;
  EXPECT_EQ(place(spec, allocation)->notes.back(), text + "(-H localhost:3)");
}

TEST(Place, CrossRanksFollowTheOrderOfHostsAlsoByNode) {
  JobSpec spec = job();
  spec.map_by = MapBy::node;
  const auto placement = place(spec, allocation_of({cpu_host("n1", 1), cpu_host("n2", 2)}));
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->hosts[0].ranks[0].cross_rank, 0);
  EXPECT_EQ(placement->hosts[1].ranks[0].cross_rank, 1);
  EXPECT_EQ(placement->hosts[1].ranks[0].cross_size, 2);
  EXPECT_EQ(placement->hosts[1].ranks[1].cross_rank, 0);
  EXPECT_EQ(placement->hosts[1].ranks[1].cross_size, 1);
}

// Returns another host, whose inventory is not known yet.
Host other_host(const std::string& name, std::optional<int> slots,
                std::optional<int> slurm_gpus = {}) {
  Host host;
  host.name = host.address = name;
  host.slots = slots;
  host.slots_source = "f";
  host.slots_fixed = slots && !slurm_gpus;
  host.share.scheduler = schedulers().front();
  host.share.gpus = slurm_gpus;
  host.share.gpus_source = "SLURM_GPUS_PER_NODE";
  return host;
}

TEST(Place, AsksHostsWhoseUnknownSlotsMatter) {
  const struct {
    const char* what;
    std::vector<Host> hosts;
    std::optional<int> ranks;
    std::optional<int> ranks_per_host;
    MapBy map_by;
    std::vector<std::string> to_ask;
    const char* expected;
  } cases[] = {
      {"all are known",
       {other_host("n1", 2), other_host("n2", 1)},
       {},
       {},
       MapBy::slot,
       {},
       "n1:0,1 n2:2"},
      {"one is unknown",
       {other_host("n1", 2), other_host("n2", {})},
       {},
       {},
       MapBy::slot,
       {"n2"},
       ""},
      {"the ranks fit before it",
       {other_host("n1", 2), other_host("n2", {})},
       2,
       {},
       MapBy::slot,
       {},
       "n1:0,1"},
      {"the ranks do not fit before it",
       {other_host("n1", 2), other_host("n2", {})},
       3,
       {},
       MapBy::slot,
       {"n2"},
       ""},
      {"one for each by node",
       {other_host("n1", 2), other_host("n2", {})},
       2,
       {},
       MapBy::node,
       {},
       "n1:0 n2:1"},
      {"more by node", {other_host("n1", 2), other_host("n2", {})}, 3, {}, MapBy::node, {"n2"}, ""},
      {"K per host",
       {other_host("n1", {}), other_host("n2", {})},
       {},
       2,
       MapBy::slot,
       {},
       "n1:0,1 n2:2,3"},
  };
  for (const auto& test : cases) {
    Allocation allocation;
    allocation.hosts = test.hosts;
    JobSpec spec = job(test.ranks);
    spec.ranks_per_host = test.ranks_per_host;
    spec.map_by = test.map_by;
    const auto placement = place(spec, allocation);
    ASSERT_TRUE(placement) << test.what << ": " << placement.error().message;
    EXPECT_EQ(placement->to_ask, test.to_ask) << test.what;
    EXPECT_EQ(numbered(*placement), test.expected) << test.what;
    for (const auto& host : placement->hosts) EXPECT_TRUE(host.is_provisional);
    if (!test.to_ask.empty()) {
      EXPECT_EQ(placement->notes,
                std::vector<std::string>{
                    "how many slots n2 has is not known before it is asked; --ranks-per-host, or a "
                    "number after each host (n2:4), decides it now"});
    }
  }
}

TEST(Place, UsesSlurmsGpusOfOtherHosts) {
  Allocation allocation;
  allocation.hosts = {other_host("n1", 2, 2)};
  JobSpec spec;
  const auto placement = place(spec, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  const auto& rank = placement->hosts[0].ranks[1];
  EXPECT_EQ(rank.device, 1);
  EXPECT_EQ(rank.device_name, "GPU 1");
  EXPECT_TRUE(rank.cpus.empty());
  EXPECT_EQ(place(job(3), allocation).error().message,
            "3 ranks for 2 GPUs: n1 has 2 GPUs (SLURM_GPUS_PER_NODE); use -np 2 for one rank per "
            "GPU, --oversubscribe to let ranks share GPUs, or --gpu-bind none when the program "
            "uses none");
}

TEST(Place, FillsUpToMaxSlotsWhenOversubscribed) {
  Allocation allocation;
  allocation.hosts = {other_host("n1", 2), other_host("n2", 2)};
  allocation.hosts[0].max_slots = 3;
  JobSpec spec = job(7);
  spec.oversubscribe = true;
  EXPECT_EQ(brief(place(spec, allocation).value()), "n1:3 n2:4");
  allocation.hosts[1].max_slots = 2;
  EXPECT_EQ(
      place(spec, allocation).error().message,
      "7 ranks, but at most 5 may be started (max_slots): n1 takes 3 ranks, n2 takes 2 ranks; use "
      "-np 5");
}

TEST(Place, RefusesFewerRanksThanNodes) {
  JobSpec spec = job(1);
  spec.nodes = 2;
  EXPECT_EQ(place(spec, allocation_of({cpu_host("n1", 2), cpu_host("n2", 2)})).error().message,
            "--nnodes 2: 1 rank cannot be on 2 hosts; use -np 2 or more, or fewer hosts");
}

TEST(Place, LimitsTheNumberOfRanks) {
  Allocation allocation;
  for (int i = 0; i < 11; ++i)
    allocation.hosts.push_back(other_host("n" + std::to_string(i), 100000));
  EXPECT_EQ(place({}, allocation).error().message,
            "these are 1100000 ranks, and hvdrun starts at most 1000000; use -np N");
}

TEST(Place, FoldsNotesOfSeveralHosts) {
  const auto crowded =
      place(job(9), allocation_of({cpu_host("n1", 1), cpu_host("n2", 1), cpu_host("n3", 1)}));
  ASSERT_TRUE(crowded);
  EXPECT_EQ(crowded->notes, std::vector<std::string>{"3 ranks on each of n[1-3] share 1 core"});
  const auto few =
      place(job(1), allocation_of({cpu_host("n1", 1), cpu_host("n2", 1), cpu_host("n3", 1)}));
  ASSERT_TRUE(few);
  EXPECT_EQ(few->notes, std::vector<std::string>{"n[2-3] get no rank"});
}

struct ShapeCase {
  const char* what;
  int tasks;
  int gpus;
  std::optional<int> ranks_per_host;
  const char* note;
};

TEST(Place, NotesHowSlurmsTasksWereUsed) {
  const ShapeCase cases[] = {
      {"one per GPU", 4, 4, {}, ""},
      {"one per host",
       1,
       4,
       {},
       "SLURM was asked for 1 task on n1, where there are 4 GPUs; hvdrun starts one rank for each; "
       "--ranks-per-host 1 starts one per host"},
      {"one per host, as --ranks-per-host asks", 1, 4, 1, ""},
      {"8 GPUs but 2 tasks",
       2,
       8,
       {},
       "SLURM was asked for 2 tasks on n1, where there are 8 GPUs; hvdrun starts one rank per GPU, "
       "8. To have SLURM give CPUs for that: #SBATCH --gpus-per-node=8 --ntasks-per-node=8; to "
       "have 2 ranks: --ranks-per-host 2"},
      {"more tasks than GPUs",
       3,
       1,
       {},
       "SLURM was asked for 3 tasks on n1, where there is 1 GPU; hvdrun starts one rank per GPU, "
       "1. To have SLURM give CPUs for that: #SBATCH --gpus-per-node=1 --ntasks-per-node=1; to "
       "have 3 ranks: --ranks-per-host 3 --oversubscribe"},
  };
  for (const auto& test : cases) {
    Allocation allocation;
    allocation.hosts = {other_host("n1", test.gpus, test.gpus)};
    allocation.hosts[0].share.tasks = test.tasks;
    JobSpec spec;
    spec.ranks_per_host = test.ranks_per_host;
    const auto placement = place(spec, allocation);
    ASSERT_TRUE(placement) << test.what << ": " << placement.error().message;
    EXPECT_EQ(fmt::format("{}", fmt::join(placement->notes, "\n")), test.note) << test.what;
  }
}

TEST(Place, NotesHostsWithFewerVisibleGpusThanSlurmGave) {
  std::vector<FakeHost> made{gpu_host({0, 0, 1}), gpu_host({0}), gpu_host({0}),
                             gpu_host({0, 0, 1, 1}), cpu_host("", 4)};
  for (std::size_t i = 0; i < made.size(); ++i) made[i].name = fmt::format("n{}", i + 1);
  Allocation allocation = allocation_of(made);
  for (auto& host : allocation.hosts) {
    host.share.scheduler = schedulers().front();
    host.share.gpus = 4;
    host.share.gpus_source = "SLURM_GPUS";
  }
  JobSpec spec;
  EXPECT_EQ(fmt::format("{}", fmt::join(place(spec, allocation)->notes, "\n")),
            "SLURM says that n1 has 4 GPUs (SLURM_GPUS), but 3 are visible there\n"
            "SLURM says that each of n[2-3] has 4 GPUs (SLURM_GPUS), but 1 is visible there\n"
            "SLURM says that n5 has 4 GPUs (SLURM_GPUS), but none is visible there");
  spec.gpu_bind = GpuBind::none;
  EXPECT_TRUE(place(spec, allocation)->notes.empty()) << "--gpu-bind none";
}

TEST(Place, ForwardsTheNotesOfTheAllocation) {
  Allocation allocation = allocation_of({cpu_host("n1", 1)});
  allocation.notes = {"SLURM is odd"};
  EXPECT_EQ(place({}, allocation)->notes, std::vector<std::string>{"SLURM is odd"});
}

TEST(Place, HandlesTenThousandHosts) {
  Allocation allocation;
  for (int i = 0; i < 10000; ++i) allocation.hosts.push_back(other_host(fmt::format("n{}", i), 8));
  JobSpec spec;
  spec.map_by = MapBy::node;
  const auto placement = place(spec, allocation);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->size, 80000);
  EXPECT_EQ(placement->hosts.back().ranks.back().rank, 79999);
  EXPECT_EQ(placement->hosts.back().ranks.back().cross_rank, 9999);
}

struct ErrorCase {
  std::vector<FakeHost> hosts;
  std::optional<int> ranks;
  std::optional<int> ranks_per_host;
  const char* message;
};

TEST(Place, ErrorsNameTheLimitAndTheOption) {
  const ErrorCase cases[] = {
      {{}, {}, {}, "there is no host to start ranks on"},
      {{cpu_host(2)}, 0, {}, "-np 0: a job has 1 rank or more"},
      {{cpu_host(2)}, -1, {}, "-np -1: a job has 1 rank or more"},
      {{cpu_host(2)}, {}, 0, "--ranks-per-host 0: must be 1 or more"},
      {{cpu_host(2)},
       10000000,
       {},
       "-np 10000000: hvdrun starts at most 100000 ranks on a host, and there is 1 host; is the "
       "number "
       "right?"},
      {{cpu_host(2)},
       {},
       100001,
       "--ranks-per-host 100001: hvdrun starts at most 100000 ranks on a host"},
      {{requested(cpu_host(2), 2000000)},
       {},
       {},
       "n1 has 2000000 slots (-H), and hvdrun starts at most 100000 ranks on a host"},
      {{gpu_host()},
       16,
       {},
       "16 ranks for 8 GPUs: n1 has 8 GPUs (NVML); use -np 8 for one rank per GPU, --oversubscribe "
       "to "
       "let ranks share GPUs, or --gpu-bind none when the program uses none"},
      {{requested(gpu_host({0}), 2)},
       {},
       {},
       "2 ranks for 1 GPU: n1 has 1 GPU (NVML); use -np 1 for one rank per GPU, --oversubscribe to "
       "let "
       "ranks share GPUs, or --gpu-bind none when the program uses none"},
      {{gpu_host()}, {}, 9, "9 ranks for 8 GPUs: "},
      {{requested(cpu_host(8), 2)},
       3,
       {},
       "3 ranks for 2 slots: n1 has 2 slots (-H); use -np 2, more slots in -H, or --oversubscribe"},
      {{requested(gpu_host(), 2)}, 3, {}, "3 ranks for 2 slots: n1 has 2 slots (-H); "},
      {{cpu_host("n1", 2), cpu_host("n2", 2)},
       9,
       4,
       "-np 9 does not fit: --ranks-per-host 4 on 2 hosts makes 8"},
  };
  for (const auto& test : cases) {
    JobSpec spec = job(test.ranks);
    spec.ranks_per_host = test.ranks_per_host;
    const auto placement = place(spec, allocation_of(test.hosts));
    ASSERT_FALSE(placement) << test.message;
    EXPECT_EQ(placement.error().exit_code, kExitUsage);
    EXPECT_EQ(placement.error().message.rfind(test.message, 0), 0u) << placement.error().message;
  }
}

TEST(Place, RefusesCpusPerRankBelowOne) {
  JobSpec spec = job(2);
  spec.cpus_per_rank = 0;
  const auto placement = place(spec, allocation_of({cpu_host(2)}));
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().message, "--cpus-per-rank 0: must be 1 or more");
}

TEST(Place, NumbersRanksAcrossUnevenHosts) {
  const auto placement =
      place(job(), allocation_of({cpu_host("n1", 2), cpu_host("n2", 1), cpu_host("n3", 3)}));
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_EQ(placement->size, 6);
  std::string text;
  for (const auto& host : placement->hosts)
    for (const auto& rank : host.ranks)
      text += fmt::format("{}/{}/{}of{} ", rank.rank, rank.local_rank, rank.cross_rank,
                          rank.cross_size);
  EXPECT_EQ(text, "0/0/0of3 1/1/0of2 2/0/1of3 3/0/2of3 4/1/1of2 5/2/0of1 ");
}

TEST(Place, OmitsAHostWithoutRanks) {
  const auto placement = place(job(2), allocation_of({cpu_host("n1", 2), cpu_host("n2", 2)}));
  ASSERT_TRUE(placement);
  EXPECT_EQ(brief(*placement), "n1:2");
  EXPECT_EQ(placement->notes, std::vector<std::string>{"n2 gets no rank"});
}

TEST(Place, NotesSharedCoresAndSlots) {
  const auto crowded = place(job(6), allocation_of({cpu_host(4)}));
  ASSERT_TRUE(crowded);
  EXPECT_EQ(crowded->notes, std::vector<std::string>{"6 ranks on n1 share 4 cores"});

  FakeHost tasks = cpu_host(8);
  tasks.slots = 2;
  const auto more = place(job(4), allocation_of({tasks}));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->notes, std::vector<std::string>{"4 ranks on n1 for its 2 slots (cores)"});

  EXPECT_TRUE(place(job(4), allocation_of({cpu_host(4)}))->notes.empty());
  auto single = job(4);
  single.gpu_bind = GpuBind::single;
  EXPECT_EQ(place(single, allocation_of({cpu_host(4)}))->notes,
            std::vector<std::string>{"n1 has no GPU to bind a rank to (--gpu-bind single)"});
}

TEST(Place, ForwardsTheNotesOfHosts) {
  Host host = make_host(cpu_host(2));
  host.inventory->notes = {"NVML does not start"};
  EXPECT_EQ(place({}, allocation_with(host))->notes,
            std::vector<std::string>{"n1: NVML does not start"});
}

}  // namespace
}  // namespace hvdrun
