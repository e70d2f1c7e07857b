#include "io/pipeline.hpp"

#include "base/thread.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace libhvd {
namespace {

Error out_of_memory() {
  return fail(HVD_ERROR_SYSTEM, "out of memory");
}

Result<std::shared_ptr<const Shard>> make_shard(const ShardOptions& options) {
  try {
    HVD_TRY(Shard shard, Shard::make(options));
    return std::shared_ptr<const Shard>(std::make_shared<Shard>(std::move(shard)));
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace

Pipeline::Pipeline(Loader& loader, std::shared_ptr<const Shard> first, const Options& options)
    : loader_(loader),
      options_(options),
      steps_(first->steps()),
      shard_(std::move(first)),
      planned_epoch_(options.shard.epoch),
      slots_(static_cast<std::size_t>(options.prefetch) + 1) {}

Pipeline::~Pipeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  may_work_.notify_all();
  for (auto& thread : threads_) thread.join();
}

Result<void> Pipeline::start() {
  const int count = std::min(options_.threads, options_.prefetch);
  threads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    // A profiler's signal may come, because these threads run the program's own code.
    auto started = start_thread("reads data", [this] { work(); }, {SIGPROF});
    if (started.ok())
      threads_.push_back(std::move(*started));
    else if (threads_.empty())
      return started.error();
    else
      break;  // fewer threads are slower, but enough
  }
  return {};
}

std::int64_t Pipeline::epoch_of(std::int64_t ticket) const {
  return options_.shard.epoch + (options_.step + ticket) / steps_;
}
std::int64_t Pipeline::step_of(std::int64_t ticket) const {
  return (options_.step + ticket) % steps_;
}

Result<const Batch*> Pipeline::next() {
  std::unique_lock lock(mutex_);
  if (std::exchange(holds_, false)) {
    slot_of(handed_back_).ready = false;
    ++handed_back_;
    may_work_.notify_one();
  }
  Slot& slot = slot_of(handed_back_);
  is_ready_.wait(lock, [&] { return slot.ready; });
  holds_ = true;
  if (slot.error) return *slot.error;
  return &slot.batch;
}

void Pipeline::work() {
  ByteBuffer scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    may_work_.wait(lock, [&] { return stopping_ || may_take(); });
    if (stopping_) return;
    if (epoch_of(next_ticket_) != planned_epoch_) {
      plan(lock);
      continue;
    }
    const std::int64_t ticket = next_ticket_++;
    const auto shard = shard_;
    lock.unlock();
    fill(ticket, shard, scratch);
    lock.lock();
    slot_of(ticket).ready = true;
    is_ready_.notify_one();
  }
}

bool Pipeline::may_take() const {
  return !planning_ && next_ticket_ < handed_back_ + static_cast<std::int64_t>(slots_.size());
}

void Pipeline::plan(std::unique_lock<std::mutex>& lock) {
  planning_ = true;
  ShardOptions options = options_.shard;
  options.epoch = epoch_of(next_ticket_);
  lock.unlock();
  auto shard = make_shard(options);
  lock.lock();
  shard_ = std::move(shard);
  planned_epoch_ = options.epoch;
  planning_ = false;
  may_work_.notify_all();
}

void Pipeline::fill(std::int64_t ticket, const Result<std::shared_ptr<const Shard>>& shard,
                    ByteBuffer& scratch) {
  Slot& slot = slot_of(ticket);
  slot.error.reset();
  slot.batch.epoch = epoch_of(ticket);
  slot.batch.step = step_of(ticket);
  Result<void> outcome;
  try {
    outcome = shard.ok() ? loader_.load(**shard, slot.batch.step, stopping_, slot.batch, scratch)
                         : Result<void>(shard.error());
  } catch (const std::bad_alloc&) {
    outcome = out_of_memory();
  } catch (const std::exception& exception) {
    outcome = fail(HVD_ERROR_SYSTEM, exception.what());
  }
  if (outcome.ok()) return;
  slot.error = with_context(
      "step " + std::to_string(slot.batch.step) + " of epoch " + std::to_string(slot.batch.epoch),
      outcome.error());
}

}  // namespace libhvd
