#include "io/reader.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <unistd.h>

namespace libhvd {

SampleCache::SampleCache(const Source& source)
    : source_(source), entries_(static_cast<std::size_t>(source.samples())) {}

Result<std::span<const std::byte>> SampleCache::get(std::int64_t sample) {
  Entry& entry = entries_[static_cast<std::size_t>(sample)];
  {
    const std::lock_guard lock(mutex_);
    if (entry.data != nullptr) return std::span<const std::byte>(entry.data.get(), entry.size);
  }
  ByteBuffer read;
  HVD_CHECK(source_.read(sample, read));
  auto kept = std::make_unique_for_overwrite<std::byte[]>(read.size());
  std::copy_n(read.data(), read.size(), kept.get());
  const std::lock_guard lock(mutex_);
  if (entry.data == nullptr) entry = {std::move(kept), read.size()};
  return std::span<const std::byte>(entry.data.get(), entry.size);
}

Loader::Loader(std::shared_ptr<const Source> source, bool cache, Decode decode)
    : source_(std::move(source)), decode_(std::move(decode)) {
  if (cache) cache_.emplace(*source_);
}

Result<void> Loader::load(const Shard& shard, std::int64_t step, const std::atomic<bool>& stop,
                          Batch& batch, ByteBuffer& scratch) {
  HVD_CHECK(shard.indices(step, batch.indices));
  HVD_TRY(batch.batch_size, shard.batch_size(step));
  batch.labels.clear();
  batch.data.resize(0);
  batch.offsets.assign(1, 0);
  for (const std::int64_t sample : batch.indices) {
    if (stop) break;
    const Result<void> loaded = load_sample(sample, batch, scratch);
    if (!loaded.ok())
      return with_context(source_->name(sample) + " (sample " + std::to_string(sample) + ")",
                          loaded.error());
    batch.offsets.push_back(batch.data.size());
  }
  return {};
}

Result<void> Loader::load_sample(std::int64_t sample, Batch& batch, ByteBuffer& scratch) {
  if (!decode_ && !cache_) {
    batch.labels.push_back(source_->label(sample));
    return source_->read(sample, batch.data);
  }
  std::span<const std::byte> data;
  if (cache_) {
    HVD_TRY(data, cache_->get(sample));
  } else {
    scratch.resize(0);
    HVD_CHECK(source_->read(sample, scratch));
    data = {scratch.data(), scratch.size()};
  }
  if (decode_) return decode_sample(sample, data, batch);
  batch.labels.push_back(source_->label(sample));
  std::copy(data.begin(), data.end(), batch.data.append(data.size()).begin());
  return {};
}

Result<void> Loader::decode_sample(std::int64_t sample, std::span<const std::byte> data,
                                   Batch& batch) {
  const Sample in{sample, source_->label(sample), data, source_->name(sample)};
  SampleOutput out(batch.data, in.label);
  try {
    HVD_CHECK(decode_(in, out));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, exception.what());
  }
  batch.labels.push_back(out.label());
  return {};
}

namespace {

// Signals are for the program's own threads; a new thread has its creator's mask. But for those
// that a thread brings upon itself, and a profiler's.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      ::sigdelset(&blocked, own);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

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

Error invalid_reader(const std::string& message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "reader: " + message);
}

Result<void> check(const ReaderOptions& options) {
  if (options.threads < 1 || options.threads > 1024)
    return invalid_reader("threads is " + std::to_string(options.threads) +
                          "; it must be 1 to 1024");
  if (options.prefetch < 1 || options.prefetch > 65536)
    return invalid_reader("prefetch is " + std::to_string(options.prefetch) +
                          "; it must be 1 to 65536");
  return {};
}

Error in_child() {
  return fail(HVD_ERROR_FORKED,
              "reader: the process that opened it forked this one, and its threads are not here; "
              "open a reader in this process");
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

void Pipeline::start() {
  const BlockedSignals blocked;
  const int count = std::min(options_.threads, options_.prefetch);
  threads_.reserve(static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;  // fewer are slower, and enough
  }
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

Result<Reader> Reader::open(std::shared_ptr<const Source> source, const ShardOptions& shard,
                            ReaderOptions options) {
  HVD_CHECK(check(options));
  ShardOptions own = shard;
  if (own.samples != 0 && own.samples != source->samples())
    return invalid_reader("samples is " + std::to_string(own.samples) + ", but the source has " +
                          std::to_string(source->samples()) + "; leave it 0");
  own.samples = source->samples();
  auto loader = std::make_unique<Loader>(std::move(source), options.cache,
                                         std::exchange(options.decode, nullptr));
  Reader reader(std::move(loader), own, options);
  HVD_CHECK(reader.begin(own.epoch, 0));
  return reader;
}

Reader::Reader(std::unique_ptr<Loader> loader, const ShardOptions& shard,
               const ReaderOptions& options)
    : shard_options_(shard),
      threads_(options.threads),
      prefetch_(options.prefetch),
      owner_(::getpid()),
      loader_(std::move(loader)) {}

Reader::~Reader() {
  if (owner_ == ::getpid()) return;
  // Joining threads that are not there, or taking a lock that one of them held, would never end.
  static_cast<void>(pipeline_.release());
  static_cast<void>(loader_.release());
}

// What was before stays when this fails.
Result<void> Reader::begin(std::int64_t epoch, std::int64_t step) {
  Pipeline::Options options{shard_options_, step, threads_, prefetch_};
  options.shard.epoch = epoch;
  HVD_TRY(Shard shard, Shard::make(options.shard));
  const std::int64_t steps = shard.steps();
  if (step < 0 || step > steps)
    return invalid_reader("there is no step " + std::to_string(step) +
                          " to go on at; an epoch has " + std::to_string(steps));
  std::unique_ptr<Pipeline> pipeline;
  if (steps > 0) {
    pipeline =
        std::make_unique<Pipeline>(*loader_, std::make_shared<Shard>(std::move(shard)), options);
    pipeline->start();
  }
  pipeline_ = std::move(pipeline);
  steps_ = steps;
  step_ = step;
  return {};
}

Result<void> Reader::seek(std::int64_t epoch, std::int64_t step) {
  if (owner_ != ::getpid()) return in_child();
  return begin(epoch, step);
}

Result<const Batch*> Reader::next() {
  if (owner_ != ::getpid()) return in_child();
  if (step_ == steps_) {
    step_ = 0;
    return nullptr;
  }
  ++step_;
  return pipeline_->next();
}

}  // namespace libhvd
