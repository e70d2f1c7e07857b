// A training method with a central rank: rank 0 has the parameters, the others send gradients to
// it. A part of methods.hpp. For comparison with methods without a central rank.
//
// An object belongs to one thread. Rank 0 has one thread more for each other rank: it receives that
// rank's gradients, and answers with parameters when the bound of staleness allows. A push and a
// pull are broadcasts in a process set of rank 0 and that rank. If a thread of rank 0 fails, rank
// 0's next call throws the error. The other ranks get a peer error when rank 0 leaves.
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

// The parameters, on rank 0. Threads: serve() runs on a thread for each other rank, all else on
// the program's.
class Server {
 public:
  Server(std::string name, std::vector<std::size_t> sizes, std::int64_t staleness, Update update)
      : name_(std::move(name)),
        sizes_(std::move(sizes)),
        staleness_(staleness),
        update_(std::move(update)),
        workers_(static_cast<std::size_t>(size())) {}

  // Sets the parameters, and lets the other ranks push.
  void begin(std::vector<float> parameters) {
    const std::lock_guard lock(mutex_);
    parameters_ = std::move(parameters);
    active_ = true;
    changed_.notify_all();
  }

  // Applies a worker's push, or lets it rest. Returns the parameters when it may continue.
  std::vector<float> turn(std::size_t worker, std::vector<float> push) {
    std::unique_lock lock(mutex_);
    if (push[0] == kRest) {
      const std::int64_t round = rounds_;
      rest(worker);
      apply_complete();
      wait(lock, [&] { return rounds_ > round; });
      return parameters_;
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
    return parameters_;
  }

  // Answers one other rank until stop() or the end of the job. The thread's function.
  void serve(std::size_t worker, ProcessSet on) noexcept {
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
        broadcast(std::span(push), static_cast<int>(worker), options);
        std::vector<float> answer = turn(worker, std::move(push));
        options.name = name_ + ".pull";
        broadcast(std::span(answer), 0, options);
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

  // Takes a step with the gradients of a push, divided by the number of ranks.
  void apply(std::vector<float>& push) {
    if (stopped_) return;
    const std::span<float> gradients = std::span(push).subspan(1);
    for (float& value : gradients) value /= static_cast<float>(workers_.size());
    update_(parts_of(parameters_, sizes_), parts_of(gradients, sizes_));
  }

  const std::string name_;
  const std::vector<std::size_t> sizes_;
  const std::int64_t staleness_;
  const Update update_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<float> parameters_;
  std::vector<Worker> workers_;  // by rank; rank 0 trains too
  std::int64_t rounds_ = 0;      // how often all have rested
  bool active_ = false;          // between begin() and the end of a round
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace detail

// Options of ParameterServer. All ranks give the same.
struct ParameterServerOptions {
  std::int64_t staleness = 0;  // by how many steps a rank may be ahead of the slowest, 0 or more
};

// Rank 0 keeps the parameters and applies the gradients of all ranks to them. M. Li et al.,
// "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
//
// With a staleness of 0, rank 0 waits for the gradients of all ranks and makes one update with
// their average: the result of an allreduce of the gradients. With more, it makes an update with
// each gradient as it arrives, divided by the number of ranks.
class ParameterServer {
 public:
  // A collective. `parameters` and `gradients`: tensors of float in host memory, in the same order,
  // with the same names and shapes on all ranks. `update` is called on rank 0 only, by one thread
  // at a time, which need not be the program's. Errors, on all ranks: `staleness` is negative;
  // settings or parameters differ; gradients do not fit the parameters.
  ParameterServer(const State& parameters, const State& gradients, Update update,
                  const ParameterServerOptions& options = {})
      : parameters_(parameters),
        gradients_(gradients),
        settings_{{"method", "ParameterServer"}, {"staleness", std::to_string(options.staleness)}} {
    detail::Offer offer{0, "", settings_, parameters_.described()};
    if (options.staleness < 0)
      offer.problem =
          "staleness is " + std::to_string(options.staleness) + ", but must be at least 0";
    if (offer.problem.empty()) offer.problem = parameters_.problem();
    if (offer.problem.empty()) offer.problem = gradients_.problem();
    if (offer.problem.empty() && gradients_.sizes() != parameters_.sizes())
      offer.problem = "the gradients do not have the sizes of the parameters";
    name_ = "ParameterServer." + std::to_string(detail::agree_settings("ParameterServer", offer));
    std::vector<ProcessSet> sets;
    for (int worker = 1; worker < size(); ++worker)
      sets.push_back(detail::find_or_add({0, worker}));
    if (rank() != 0) {
      own_set_ = sets[static_cast<std::size_t>(rank() - 1)];
      return;
    }
    server_ = std::make_shared<detail::Server>(name_, parameters_.sizes(), options.staleness,
                                               std::move(update));
    for (std::size_t worker = 1; worker <= sets.size(); ++worker)
      threads_.emplace_back(
          [server = server_, worker, set = sets[worker - 1]] { server->serve(worker, set); });
  }
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  // Call synchronize() before, on all ranks. Otherwise rank 0's threads end with the job.
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

  // Waits until all ranks call it. Afterwards all have rank 0's parameters. For a rank without more
  // data, for the end of the training, and before a checkpoint: hvd::join() does not work here.
  void synchronize() {
    turn(detail::kRest, parameters_);
    begun_ = false;
  }

  // Returns the state for a checkpoint: the settings. Save the parameters and what `update` uses
  // (momentum, ...) beside it, after synchronize(): a checkpoint has rank 0's.
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
    broadcast(std::span(push), 0, options);
    detail::unflatten(push, parameters_.tensors());
  }

  detail::Model parameters_;
  detail::Model gradients_;
  std::vector<detail::Described> settings_;
  std::string name_;
  bool begun_ = false;
  ProcessSet own_set_;                      // of rank 0 and this rank
  std::shared_ptr<detail::Server> server_;  // on rank 0
  std::vector<std::thread> threads_;        // on rank 0
};

}  // namespace hvd

#endif  // HVD_PARAMETER_SERVER_HPP_
