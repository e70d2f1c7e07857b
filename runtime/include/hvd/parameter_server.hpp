// A training method with a central rank: rank 0 has the parameters, the others send gradients to
// it. With a server on each host, the lowest rank of each host does that for the ranks of its host.
// A part of methods.hpp. For comparison with methods without a central rank.
//
// An object belongs to one thread. A server has one thread more for each other rank that it serves:
// it receives that rank's gradients, and answers with parameters when the bound of staleness
// allows. A push and a pull are broadcasts in a process set of the server and that rank. If a
// thread of a server fails, the server's next call throws the error. The other ranks get a peer
// error when the server leaves.
#ifndef HVD_PARAMETER_SERVER_HPP_
#define HVD_PARAMETER_SERVER_HPP_

#include "hvd/method_support.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hvd {

// The program's optimizer: changes the parameters by their gradients. Both have the tensors in the
// order of the State.
using Update = std::function<void(const Tensors& parameters, const Tensors& gradients)>;

namespace detail {

// The first element of a push; then come the gradients.
inline constexpr float kGradients = 1;
inline constexpr float kRest = 2;

// The servers of several hosts, which average their parameters.
struct Servers {
  int count = 1;
  ProcessSet on = {};      // a server on each host
  std::int64_t every = 1;  // steps of a server between averages
};

// The parameters, on a server. Threads: serve() runs on a thread for each other rank that it
// serves, all else on the program's.
class Server {
 public:
  // `workers`: the number of ranks that it serves, with its own, which is worker 0.
  Server(std::string name, std::vector<std::size_t> sizes, std::int64_t staleness, Update update,
         std::size_t workers, Servers servers)
      : name_(std::move(name)),
        sizes_(std::move(sizes)),
        staleness_(staleness),
        update_(std::move(update)),
        servers_(servers),
        workers_(workers) {}

  // Sets the parameters, and lets the other ranks push.
  void begin(std::vector<float> parameters) {
    const std::lock_guard lock(mutex_);
    parameters_ = std::move(parameters);
    active_ = true;
    changed_.notify_all();
  }

  // Applies a worker's push, or lets it rest. Returns the parameters when it may continue. An
  // error, also one of the program's update, is the error of all workers.
  std::vector<float> turn(std::size_t worker, std::vector<float> push) {
    std::unique_lock lock(mutex_);
    try {
      take_turn(lock, worker, std::move(push));
    } catch (...) {
      if (failure_ == nullptr) failure_ = std::current_exception();
      changed_.notify_all();
      throw;
    }
    return parameters_;
  }

  // Answers one other rank until stop() or the end of the job. The thread's function. `own` and
  // `theirs`: the ranks of the server and of the worker.
  void serve(std::size_t worker, int own, int theirs, ProcessSet on) noexcept {
    try {
      Options options(name_ + ".push");
      options.on = on;
      while (true) {
        {
          std::unique_lock lock(mutex_);
          wait(lock, [&] { return active_ || stopped_; });
          if (stopped_) return;
        }
        std::size_t total = 1;
        for (const std::size_t count : sizes_) total += count;
        std::vector<float> push(total);
        options.name = name_ + ".push";
        broadcast(std::span(push), theirs, options);
        std::vector<float> answer = turn(worker, std::move(push));
        options.name = name_ + ".pull";
        broadcast(std::span(answer), own, options);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  // Ends the threads that wait for the next round, and forbids further updates. Returns whether all
  // threads end by themselves: none waits for a rank that has not rested.
  bool stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    return !active_;
  }

 private:
  struct Worker {
    std::int64_t steps = 0;
    bool resting = false;        // makes no steps until all rest
    std::vector<float> arrived;  // with a staleness of 0: the push of the present step
  };

  // Does what turn() does, with the lock held except while it waits.
  void take_turn(std::unique_lock<std::mutex>& lock, std::size_t worker, std::vector<float> push) {
    if (push[0] == kRest) {
      const std::int64_t round = rounds_;
      rest(worker);
      apply_complete();
      wait(lock, [&] { return rounds_ > round; });
      return;
    }
    Worker& own = workers_[worker];
    ++own.steps;
    if (staleness_ > 0)
      apply(push);
    else
      own.arrived = std::move(push);
    changed_.notify_all();
    apply_complete();
    wait(lock, [&] { return own.arrived.empty() && may_continue(own); });
  }

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    changed_.wait(lock, [&] { return failure_ != nullptr || condition(); });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  // Q. Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
  // Server", NIPS 2013: the slowest worker is at most `staleness_` steps before this one.
  bool may_continue(const Worker& own) const {
    return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& other) {
      return other.resting || own.steps - other.steps <= staleness_;
    });
  }

  // When all rest, all continue from the same step, and no rank pushes until begin().
  void rest(std::size_t worker) {
    workers_[worker].resting = true;
    changed_.notify_all();
    if (!std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.resting; }))
      return;
    finish_round();
    for (Worker& other : workers_) other = {};
    ++rounds_;
    active_ = false;
  }

  // Takes the step of a synchronous server, if the pushes of all that do not rest have arrived.
  void apply_complete() {
    std::vector<float> sum;
    for (const Worker& worker : workers_) {
      if (worker.resting) continue;
      if (worker.arrived.empty()) return;
      if (sum.empty())
        sum = worker.arrived;
      else
        std::transform(sum.begin(), sum.end(), worker.arrived.begin(), sum.begin(), std::plus<>());
    }
    if (sum.empty()) return;
    for (Worker& worker : workers_) worker.arrived.clear();
    apply(sum);
    changed_.notify_all();
  }

  // Averages the parameters with the other servers until the ranks of all rest. A server whose
  // ranks rest takes part in the averages of the others, but its parameters are averaged once only.
  void finish_round() {
    if (servers_.count == 1) return;
    bool changed = since_average_ > 0;
    while (average_servers(changed, true) < servers_.count) changed = false;
  }

  // Replaces the parameters by the average of the servers that take part, weighted by their ranks.
  // Returns how many servers have only ranks that rest.
  int average_servers(bool take_part, bool resting) {
    const auto weight = static_cast<float>(take_part ? workers_.size() : 0);
    std::vector<float> sums = parameters_;
    for (float& value : sums) value *= weight;
    sums.push_back(weight);
    sums.push_back(resting ? 1 : 0);
    Options options(name_ + ".servers");
    options.on = servers_.on;
    allreduce(std::span(sums), Op::sum, options);
    const float total = sums[parameters_.size()];
    for (std::size_t i = 0; i < parameters_.size() && total > 0; ++i)
      parameters_[i] = sums[i] / total;
    since_average_ = 0;
    return static_cast<int>(sums.back());
  }

  // Takes a step with the gradients of a push, divided by the number of ranks. At the end of a
  // period, averages with the other servers; the ranks of this one wait meanwhile.
  void apply(std::vector<float>& push) {
    if (stopped_) return;
    const std::span<float> gradients = std::span(push).subspan(1);
    for (float& value : gradients) value /= static_cast<float>(workers_.size());
    update_(parts_of(parameters_, sizes_), parts_of(gradients, sizes_));
    if (servers_.count == 1) return;
    const auto ranks = static_cast<std::int64_t>(workers_.size());
    since_average_ += staleness_ > 0 ? 1 : ranks;
    if (since_average_ >= servers_.every * ranks) average_servers(true, false);
  }

  const std::string name_;
  const std::vector<std::size_t> sizes_;
  const std::int64_t staleness_;
  const Update update_;
  const Servers servers_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<float> parameters_;
  std::vector<Worker> workers_;     // the server's rank trains too
  std::int64_t rounds_ = 0;         // how often all have rested
  std::int64_t since_average_ = 0;  // gradients since the servers' last average
  bool active_ = false;             // between begin() and the end of a round
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace detail

// Options of ParameterServer. All ranks give the same.
struct ParameterServerOptions {
  std::int64_t staleness = 0;  // by how many steps a rank may be ahead of the slowest, 0 or more
  bool per_host = false;       // a server on each host, for the ranks of that host
  std::int64_t every = 1;      // with per_host: steps of a server between averages of all servers
};

// Rank 0 keeps the parameters and applies the gradients of all ranks to them. M. Li et al.,
// "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
//
// With a staleness of 0, rank 0 waits for the gradients of all ranks and makes one update with
// their average: the result of an allreduce of the gradients. With more, it makes an update with
// each gradient as it arrives, divided by the number of ranks.
//
// With per_host, gradients stay on their host, and the staleness is that between its ranks. After
// each `every` steps the servers average their parameters, weighted by their ranks, and wait for
// each other. If the update is linear in the gradient (SGD), `every` is 1 and the staleness 0, that
// is the result of an allreduce of the gradients, but for rounding.
class ParameterServer {
 public:
  // A collective. `parameters` and `gradients`: tensors of float in host memory, in the same order,
  // with the same names and shapes on all ranks. `update` is called on servers only, by one thread
  // at a time, which need not be the program's. Errors, on all ranks: `staleness` is negative;
  // `every` is below 1; settings or parameters differ; gradients do not fit the parameters.
  ParameterServer(const State& parameters, const State& gradients, Update update,
                  const ParameterServerOptions& options = {})
      : parameters_(parameters),
        gradients_(gradients),
        settings_{{"method", "ParameterServer"},
                  {"staleness", std::to_string(options.staleness)},
                  {"per_host", options.per_host ? "true" : "false"},
                  {"every", std::to_string(options.every)}} {
    detail::Offer offer{0, "", settings_, parameters_.described()};
    if (options.staleness < 0)
      offer.problem =
          "staleness is " + std::to_string(options.staleness) + ", but must be at least 0";
    if (options.every < 1)
      offer.problem = "every is " + std::to_string(options.every) + ", but must be at least 1";
    if (options.every > 1 && !options.per_host)
      offer.problem = "every is for a server on each host (per_host)";
    if (offer.problem.empty()) offer.problem = parameters_.problem();
    if (offer.problem.empty()) offer.problem = gradients_.problem();
    if (offer.problem.empty() && gradients_.sizes() != parameters_.sizes())
      offer.problem = "the gradients do not have the sizes of the parameters";
    name_ = "ParameterServer." + std::to_string(detail::agree_settings("ParameterServer", offer));
    make_server(std::move(update), options);
  }
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  // Call synchronize() before, on all ranks. Otherwise the servers' threads end with the job.
  ~ParameterServer() {
    if (server_ == nullptr) return;
    const bool all_end = server_->stop() || !initialized();
    for (std::thread& thread : threads_) {
      if (all_end)
        thread.join();
      else
        thread.detach();
    }
  }

  // Sends this rank's gradients, waits as long as the bound of staleness demands, and sets the
  // parameters. The first call, and the first after synchronize() or load(), is a collective, which
  // gives all ranks rank 0's parameters.
  void step() { turn(detail::kGradients, gradients_); }

  // Waits until all ranks call it. Afterwards all have the same parameters. For a rank without more
  // data, for the end of the training, and before a checkpoint: hvd::join() does not work here.
  void synchronize() {
    turn(detail::kRest, parameters_);
    begun_ = false;
  }

  // Returns the state for a checkpoint: the settings. Save the parameters and what `update` uses
  // (momentum, ...) beside it, after synchronize(): a checkpoint has rank 0's, which then becomes
  // that of all servers.
  std::string state() const {
    detail::Writer writer;
    writer.add(settings_);
    return writer.bytes();
  }

  // Checks what state() has returned. Call it after the program has loaded the parameters, before
  // the first step or after synchronize(). Error: saved with other settings; called during a round.
  void load(const std::string& saved) {
    if (begun_) detail::refuse("hvd::ParameterServer: call synchronize() before load()");
    detail::check_saved("ParameterServer", detail::Reader(saved).list(), settings_);
  }

 private:
  // Makes the process sets of each server and its ranks, the server, and its threads.
  void make_server(Update update, const ParameterServerOptions& options) {
    const int host = options.per_host ? node_rank() : 0;
    const std::vector<int> hosts =
        allgather_async(std::span(&host, 1), Options(name_ + ".hosts")).get();
    struct Worker {
      int rank;
      ProcessSet on;
    };
    std::vector<Worker> workers;  // that this rank serves, without itself
    std::vector<int> servers;
    for (int r = 0; r < size(); ++r) {
      const auto first = std::find(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(r)]);
      const int server = static_cast<int>(first - hosts.begin());
      if (r == rank()) server_rank_ = server;
      if (server == r) {
        servers.push_back(r);
        continue;
      }
      const ProcessSet pair = detail::find_or_add({server, r});
      if (server == rank()) workers.push_back({r, pair});
      if (r == rank()) own_set_ = pair;
    }
    detail::Servers others{static_cast<int>(servers.size()), {}, options.every};
    if (servers.size() > 1) others.on = detail::find_or_add(servers);
    if (server_rank_ != rank()) return;
    server_ = std::make_shared<detail::Server>(name_, parameters_.sizes(), options.staleness,
                                               std::move(update), workers.size() + 1, others);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      threads_.emplace_back([server = server_, index = i + 1, own = rank(), worker = workers[i]] {
        server->serve(index, own, worker.rank, worker.on);
      });
    }
  }

  void begin() {
    if (begun_) return;
    const Tensors tensors = parameters_.tensors();
    std::vector<float> flat = detail::flattened(tensors, parameters_.total());
    broadcast(std::span(flat), 0, name_ + ".begin");
    detail::unflatten(flat, tensors);
    if (server_ != nullptr) server_->begin(std::move(flat));
    begun_ = true;
  }

  void turn(float kind, const detail::Model& sent) {
    begin();
    std::vector<float> push(parameters_.total() + 1, kind);
    detail::flatten(sent.tensors(), std::span(push).subspan(1));
    if (server_ != nullptr) {
      detail::unflatten(server_->turn(0, std::move(push)), parameters_.tensors());
      return;
    }
    Options options(name_ + ".push");
    options.on = own_set_;
    broadcast(std::span(push), rank(), options);
    push.resize(parameters_.total());
    options.name = name_ + ".pull";
    broadcast(std::span(push), server_rank_, options);
    detail::unflatten(push, parameters_.tensors());
  }

  detail::Model parameters_;
  detail::Model gradients_;
  std::vector<detail::Described> settings_;
  std::string name_;
  bool begun_ = false;
  int server_rank_ = 0;                     // of the server of this rank
  ProcessSet own_set_;                      // of the server and this rank
  std::shared_ptr<detail::Server> server_;  // on servers
  std::vector<std::thread> threads_;        // on servers
};

}  // namespace hvd

#endif  // HVD_PARAMETER_SERVER_HPP_
