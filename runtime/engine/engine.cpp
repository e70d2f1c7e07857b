#include "engine/engine.hpp"

#include "base/signals_blocked.hpp"
#include "collective/arguments.hpp"
#include "collective/element.hpp"
#include "engine/fusion.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

namespace libhvd {
namespace {

Error stopped() {
  return fail(HVD_ERROR_NOT_INITIALIZED, "hvd_shutdown was called before it was done");
}

bool is_mistake(const Outcome& outcome) {
  return !outcome.ok() && outcome.error().status != HVD_ERROR_PEER;
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::start(std::unique_ptr<Communicator> communicator) {
  std::shared_ptr<Engine> engine(new Engine(std::move(communicator)));
  const SignalsBlocked blocked;
  try {
    engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM, std::string("cannot start the engine's thread: ") + error.what());
  }
  return engine;
}

Engine::~Engine() {
  stop();
}

void Engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  communicator_->interrupt();
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  fail_all(stopped());
  std::unique_lock lock(mutex_);  // a waiting thread may drive: it uses the buffers of the program
  changed_.wait(lock, [this] { return !driven_; });
}

Result<std::int64_t> Engine::submit(Request request) {
  auto entry = std::make_shared<Pending>();
  const std::lock_guard lock(mutex_);
  if (request.name.empty()) request.name = request.kind + " #" + std::to_string(++unnamed_);
  entry->hash = hash_name(request.name);
  entry->request = std::move(request);
  if (broken_) {
    entry->outcome = *broken_;
  } else if (!in_flight_.emplace(entry->hash, entry).second) {
    return fail(HVD_ERROR_INVALID_ARGUMENT, entry->request.kind + " \"" + entry->request.name +
                                                "\": was submitted before, and is not done yet");
  } else {
    fresh_.push_back(entry);
    has_fresh_.store(true, std::memory_order_seq_cst);
    if (driven_) {
      communicator_->stir();
    } else {
      work_.notify_one();
    }
  }
  handles_.emplace(++last_handle_, std::move(entry));
  return last_handle_;
}

Result<bool> Engine::done(std::int64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end())
    return fail(HVD_ERROR_INVALID_ARGUMENT, "there is no handle " + std::to_string(handle));
  return found->second->outcome.has_value();
}

Outcome Engine::wait(std::int64_t handle) {
  std::unique_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end())
    return fail(HVD_ERROR_INVALID_ARGUMENT, "there is no handle " + std::to_string(handle));
  const Entry entry = found->second;
  handles_.erase(found);
  while (!entry->outcome) {
    if (driven_) {
      changed_.wait(lock);
      continue;
    }
    driven_ = true;
    lock.unlock();
    drive(entry.get());
    lock.lock();
    driven_ = false;
    changed_.notify_all();
    if (!in_flight_.empty()) work_.notify_one();
  }
  return *entry->outcome;
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || (!driven_ && !in_flight_.empty()); });
    if (stop_) return;
    driven_ = true;
    lock.unlock();
    drive(nullptr);
    lock.lock();
    driven_ = false;
    changed_.notify_all();
  }
}

// Goes from round to round while there is something to do; until one thing is done, if any is
// given.
void Engine::drive(const Pending* until) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || in_flight_.empty() || (until != nullptr && until->outcome)) return;
    }
    try {
      Outcome outcome = communicator_->wait_for_news(
          [this] { return has_fresh_.load(std::memory_order_seq_cst); });
      if (outcome.ok()) outcome = round(take_fresh());
      if (!outcome.ok()) fail_all(outcome.error());
    } catch (const std::exception& exception) {
      fail_all(fail(HVD_ERROR_SYSTEM, std::string("the engine: ") + exception.what()));
    }
  }
}

// What has been submitted since the last round, as far as one round tells it.
std::vector<Engine::Entry> Engine::take_fresh() {
  const std::lock_guard lock(mutex_);
  const std::size_t most = std::min(fresh_.size(), Communicator::kMostNews);
  const auto end = fresh_.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<Entry> taken(std::make_move_iterator(fresh_.begin()), std::make_move_iterator(end));
  fresh_.erase(fresh_.begin(), end);
  has_fresh_.store(!fresh_.empty(), std::memory_order_seq_cst);
  return taken;
}

Outcome Engine::round(const std::vector<Entry>& fresh) {
  std::vector<std::uint64_t> news;
  for (const Entry& entry : fresh) news.push_back(entry->hash);
  std::vector<std::uint64_t> complete_names;
  HVD_CHECK(communicator_->exchange_news(news, [&](std::uint64_t name) {
    int& ranks = told_[name];
    if (++ranks < communicator_->size()) return;
    told_.erase(name);
    complete_names.push_back(name);
  }));
  if (complete_names.empty()) return Done{};
  std::vector<Entry> ready;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return Done{};
    for (const std::uint64_t name : complete_names) ready.push_back(in_flight_.at(name));
  }
  execute(ready);
  return Done{};
}

// Small allreduces go together. Ranks whose calls do not fit together may see different ones fit
// for that; but as these then do not fit together either, all are told so, and go on from the same
// entry one by one.
void Engine::execute(const std::vector<Entry>& ready) {
  bool together = true;
  for (std::span<const Entry> left = ready; !left.empty();) {
    std::size_t count = 1;
    if (together) {
      FusionPlan plan;
      for (const Entry& entry : left) {
        if (!plan.add(entry->request)) break;
      }
      count = std::max<std::size_t>(1, plan.size());
    }
    if (count > 1) {
      const Outcome outcome = execute_fused(left.first(count));
      together = !is_mistake(outcome);
      if (!together) continue;
      complete(left.first(count), outcome);
    } else {
      const Request& request = left.front()->request;
      CallOptions options = request.options;
      options.name = request.name.c_str();
      complete(left.first(1), request.run(*communicator_, options));
    }
    left = left.subspan(count);
  }
}

Outcome Engine::execute_fused(std::span<const Entry> entries) {
  std::vector<const Request*> requests;
  for (const Entry& entry : entries) requests.push_back(&entry->request);
  return run_fused(*communicator_, requests, scratch_);
}

void Engine::complete(std::span<const Entry> entries, const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries) {
      entry->outcome = outcome;
      in_flight_.erase(entry->hash);
    }
  }
  changed_.notify_all();
}

void Engine::fail_all(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) broken_ = stop_ ? stopped() : error;
    for (const auto& [hash, entry] : in_flight_) entry->outcome = *broken_;
    in_flight_.clear();
    fresh_.clear();
    has_fresh_.store(false, std::memory_order_seq_cst);
  }
  changed_.notify_all();
}

}  // namespace libhvd
