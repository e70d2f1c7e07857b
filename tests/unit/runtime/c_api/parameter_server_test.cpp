// ParameterServer of hvd/methods.hpp, with ranks as processes.
#include "methods_support.hpp"
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

// Parameters of two tensors, their gradients, and an optimizer with momentum.
struct ServedModel {
  Values first = {1, 2, 3}, second = {-4, 5};
  Values first_gradient = Values(3), second_gradient = Values(2);
  Values velocity = Values(5);

  hvd::State parameters() { return named("first", first, "second", second); }
  hvd::State gradients() { return named("first", first_gradient, "second", second_gradient); }
  hvd::Update update() {
    return [this](const hvd::Tensors& parameters, const hvd::Tensors& gradients) {
      std::size_t at = 0;
      for (std::size_t t = 0; t < parameters.size(); ++t) {
        for (std::size_t i = 0; i < parameters[t].size(); ++i) {
          velocity[at] = 0.5F * velocity[at] + gradients[t][i];
          parameters[t][i] -= 0.1F * velocity[at++];
        }
      }
    };
  }
  void compute_gradients(int rank, int step) {
    for (std::size_t i = 0; i < 3; ++i)
      first_gradient[i] = first[i] * static_cast<float>(rank + 1) - static_cast<float>(step) / 7;
    for (std::size_t i = 0; i < 2; ++i)
      second_gradient[i] = second[i] / static_cast<float>(rank + 3) + static_cast<float>(step);
  }
};

bool same_parameters(const ServedModel& one, const ServedModel& two) {
  return one.first == two.first && one.second == two.second;
}

// An update that adds the gradient to the only parameter.
void add_gradient(const hvd::Tensors& to, const hvd::Tensors& by) {
  to[0][0] += by[0][0];
}

class ParameterServerOnRanks : public testing::TestWithParam<int> {};  // the number of ranks
INSTANTIATE_TEST_SUITE_P(Ranks, ParameterServerOnRanks, testing::Values(1, 2, 3));

// Takes a step with the average of all gradients, without a server.
void step_by_allreduce(ServedModel& model, int rank, int step) {
  model.compute_gradients(rank, step);
  hvd::allreduce(std::span(model.first_gradient), hvd::Op::average);
  hvd::allreduce(std::span(model.second_gradient), hvd::Op::average);
  model.update()({model.first, model.second}, {model.first_gradient, model.second_gradient});
}

TEST_P(ParameterServerOnRanks, ZeroStalenessEqualsAnAllreduceOfTheGradients) {
  expect_right(GetParam(), [](int rank) -> std::string {
    ServedModel model, other;
    if (rank > 0) model.first[0] = 77;  // all begin with rank 0's parameters
    hvd::ParameterServer server(model.parameters(), model.gradients(), model.update());
    server.synchronize();
    for (int round = 0; round < 2; ++round) {
      for (int step = 5 * round; step < 5 * round + 5; ++step) {
        model.compute_gradients(rank, step);
        server.step();
        step_by_allreduce(other, rank, step);
        if (!same_parameters(model, other)) return "step " + std::to_string(step);
      }
      server.synchronize();
      if (!same_parameters(model, other)) return "synchronize";
    }
    return "";
  });
}

// Rank 0 takes as many steps as the bound allows before rank 1 takes its second.
TEST_P(ParameterServerOnRanks, ARankIsAheadByTheStalenessAtMost) {
  constexpr int kSteps = 20;
  constexpr int kStaleness = 3;
  Signal go;
  expect_right(GetParam(), [&, size = GetParam()](int rank) -> std::string {
    Values value{0}, gradient{static_cast<float>(size << rank)};
    std::vector<int> steps(static_cast<std::size_t>(size));
    int ahead = 0;
    const auto update = [&](const hvd::Tensors& to, const hvd::Tensors& by) {
      int worker = 0;
      while (1 << worker < static_cast<int>(by[0][0]))
        ++worker;  // the server has divided it by the size
      ++steps[static_cast<std::size_t>(worker)];
      const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
      ahead = std::max(ahead, *most - *least);
      add_gradient(to, by);
    };
    hvd::ParameterServer server(named("value", value), named("value", gradient), update,
                                {.staleness = kStaleness});
    // The first step begins the round on all ranks.
    for (int step = 0; step < kSteps; ++step) {
      if (rank == 0 && step == kStaleness + 1) go.notify();
      if (rank == 1 && step == 1) go.await();
      server.step();
    }
    server.synchronize();
    if (rank > 0) return "";
    if (steps != std::vector<int>(static_cast<std::size_t>(size), kSteps)) return "lost gradients";
    if (ahead > kStaleness + 1) return "ahead by " + std::to_string(ahead);
    if (value[0] != static_cast<float>(kSteps * ((1 << size) - 1))) return "the sum";
    return "";
  });
}

TEST_P(ParameterServerOnRanks, ARankWithoutMoreDataDoesNotBlockTheOthers) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    for (const int staleness : {0, 2}) {
      Values value{0}, gradient{1};
      hvd::ParameterServer server(named("value", value), named("value", gradient), add_gradient,
                                  {.staleness = staleness});
      const int own = 3 + 5 * rank;
      for (int step = 0; step < own; ++step) server.step();
      server.synchronize();
      const int all = size * 3 + 5 * (size * (size - 1) / 2);
      require_near(value, {static_cast<float>(all) / static_cast<float>(size)},
                   "staleness " + std::to_string(staleness), 1e-4F);
    }
    return "";
  });
}

TEST_P(ParameterServerOnRanks, TrainingContinuesFromACheckpoint) {
  const TemporaryFolder folder;
  expect_right(GetParam(), [&](int rank) -> std::string {
    const auto all_of = [](ServedModel& model, std::string& server) {  // the velocity is rank 0's
      return named("first", model.first, "second", model.second, "velocity", model.velocity,
                   "server", server);
    };
    const auto train = [&](ServedModel& model, hvd::ParameterServer& server, int begin) {
      for (int step = begin; step < begin + 3; ++step) {
        model.compute_gradients(rank, step);
        server.step();
      }
      server.synchronize();
    };
    hvd::Checkpoints checkpoints(folder.file("c"));
    ServedModel model, again;
    hvd::ParameterServer server(model.parameters(), model.gradients(), model.update());
    train(model, server, 0);
    std::string bytes = server.state(), loaded;
    checkpoints.save(all_of(model, bytes), 3);
    train(model, server, 3);
    hvd::ParameterServer other(again.parameters(), again.gradients(), again.update());
    train(again, other, 1);  // something else
    hvd::State state = all_of(again, loaded);
    checkpoints.load(state);
    other.load(loaded);
    train(again, other, 3);
    return same_parameters(model, again) ? "" : "the parameters differ";
  });
}

TEST_P(ParameterServerOnRanks, InvalidArgumentsFailOnEveryRank) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    const bool last = rank == size - 1;
    const std::string on_last = " (on rank " + std::to_string(size - 1) + ")";
    ServedModel model;
    const auto make = [&](std::int64_t staleness) {
      hvd::ParameterServer(model.parameters(), model.gradients(), model.update(),
                           {.staleness = staleness});
    };
    require_error([&] { make(last ? -1 : 0); },
                  "hvd::ParameterServer: staleness is -1, but must be at least 0" + on_last);
    if (size > 1) {
      require_error([&] { make(last ? 2 : 0); }, "staleness differs between ranks: 0 on rank");
    }
    if (last) model.second_gradient.resize(1);
    require_error([&] { make(0); }, "the gradients do not have the sizes of the parameters");
    model.second_gradient.resize(2);
    hvd::ParameterServer server(model.parameters(), model.gradients(), model.update());
    hvd::ParameterServer stale(model.parameters(), model.gradients(), model.update(),
                               {.staleness = 2});
    require_error([&] { stale.load(server.state()); },
                  "the state was saved with staleness = 0, but here staleness = 2");
    require_error(
        [&] {
          hvd::ParameterServer(model.parameters(), model.gradients(), model.update(), {.every = 2});
        },
        "every is for a server on each host (per_host)");
    hvd::ParameterServer hosts(model.parameters(), model.gradients(), model.update(),
                               {.per_host = true});
    require_error([&] { hosts.load(server.state()); },
                  "per_host = false, but here per_host = true");
    server.step();
    require_error([&] { server.load(server.state()); }, "call synchronize() before load()");
    server.synchronize();
    server.load(server.state());
    return "";
  });
}

// ---- A server on each host ----------------------------------------------------------------------

class ParameterServerOnHosts : public testing::TestWithParam<std::vector<int>> {
};  // the host of each rank
INSTANTIATE_TEST_SUITE_P(Hosts, ParameterServerOnHosts,
                         testing::Values(std::vector<int>{0, 1}, std::vector<int>{0, 1, 1},
                                         std::vector<int>{0, 1, 0, 1}));

// Updates by plain SGD, which is linear in the gradient.
void plain_update(const hvd::Tensors& parameters, const hvd::Tensors& gradients) {
  for (std::size_t t = 0; t < parameters.size(); ++t)
    for (std::size_t i = 0; i < parameters[t].size(); ++i)
      parameters[t][i] -= 0.1F * gradients[t][i];
}

TEST_P(ParameterServerOnHosts, ZeroStalenessEqualsAnAllreduceOfTheGradients) {
  expect_right_on(GetParam(), [](int rank) -> std::string {
    ServedModel model, other;
    if (rank > 0) model.first[0] = 77;  // the first step gives all rank 0's parameters
    hvd::ParameterServer server(model.parameters(), model.gradients(), plain_update,
                                {.per_host = true});
    server.synchronize();
    for (int round = 0; round < 2; ++round) {
      for (int step = 4 * round; step < 4 * round + 4; ++step) {
        model.compute_gradients(rank, step);
        server.step();
        other.compute_gradients(rank, step);
        hvd::allreduce(std::span(other.first_gradient), hvd::Op::average);
        hvd::allreduce(std::span(other.second_gradient), hvd::Op::average);
        plain_update({other.first, other.second}, {other.first_gradient, other.second_gradient});
        require_near(model.first, other.first, "first");
        require_near(model.second, other.second, "second");
      }
      server.synchronize();
    }
    return "";
  });
}

// The gradients of a host are its number + 1, so the parameters of its server are known.
TEST_P(ParameterServerOnHosts, ServersAverageAfterEachPeriodAndAtTheEnd) {
  const std::vector<int>& hosts = GetParam();
  for (const std::int64_t staleness : {0, 2}) {
    expect_right_on(hosts, [&](int rank) -> std::string {
      const int host = hosts[static_cast<std::size_t>(rank)];
      Values value{0}, gradient{static_cast<float>(host + 1)};
      hvd::ParameterServer server(named("value", value), named("value", gradient), add_gradient,
                                  {.staleness = staleness, .per_host = true, .every = 3});
      double sum = 0;
      for (const int other : hosts) sum += other + 1;
      const double mean = sum / static_cast<double>(hosts.size());
      for (int step = 0; step < 3; ++step) server.step();
      if (staleness == 0)
        require_near(value, {static_cast<float>(3 * mean)}, "after a period", 1e-4F);
      // Host 1 takes two steps more. Host 0 has not changed its parameters since the average.
      for (int step = 0; host == 1 && step < 2; ++step) server.step();
      server.synchronize();
      require_near(value, {static_cast<float>(3 * mean + 2 * 2)}, "at the end", 1e-4F);
      return "";
    });
  }
}

// The ranks of host 0 run out of data many periods before those of host 1.
TEST_P(ParameterServerOnHosts, AHostWithoutMoreDataDoesNotBlockTheOthers) {
  expect_right_on(GetParam(), [](int rank) -> std::string {
    for (const std::int64_t staleness : {0, 3}) {
      ServedModel model;
      hvd::ParameterServer server(model.parameters(), model.gradients(), plain_update,
                                  {.staleness = staleness, .per_host = true, .every = 2});
      for (int step = 0; step < 1 + 7 * rank; ++step) {
        model.compute_gradients(rank, step);
        server.step();
      }
      server.synchronize();
      require_alike(model.first, "at the end");
    }
    return "";
  });
}

// A rank leaves during a round. The others must get an error and must not hang.
TEST(ParameterServerFailures, ARankThatLeavesFailsTheOthers) {
  expect_right(3, [](int rank) -> std::string {
    ServedModel model;
    hvd::ParameterServer server(model.parameters(), model.gradients(), model.update());
    server.step();
    if (rank == 2) return "";
    const std::string error = error_of([&] { server.step(); });
    // Rank 0 ends because of this, and rank 1 may name rank 0 instead.
    const bool named = error.find("rank 2") != std::string::npos ||
                       (rank == 1 && error.find("rank 0") != std::string::npos);
    return named ? "" : "\"" + error + "\"";
  });
}

// An exception of the program's update on another thread is thrown by rank 0's step.
TEST(ParameterServerFailures, AnErrorInTheUpdateEndsTheTraining) {
  expect_right(2, [](int rank) -> std::string {
    ServedModel model;
    const auto fails = [](const hvd::Tensors&, const hvd::Tensors&) {
      throw std::runtime_error("no update");
    };
    hvd::ParameterServer server(model.parameters(), model.gradients(), fails);
    try {
      server.step();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      return text.find(rank == 0 ? "no update" : "rank 0") != std::string::npos ? "" : text;
    }
    return "no error";
  });
}

}  // namespace
}  // namespace libhvd::test
