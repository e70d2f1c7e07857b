// The reader with a source in memory. The source records its reads, and can block and fail.
#include "io/reader.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd {
namespace {

// A source whose sample i is the text of i, with label i % 10.
class MemorySource final : public Source {
 public:
  explicit MemorySource(std::int64_t samples) : samples_(samples) {}

  std::int64_t samples() const override { return samples_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override { return sample % 10; }
  std::string name(std::int64_t sample) const override { return "made/" + std::to_string(sample); }
  std::uint32_t fingerprint() const override { return 0; }

  Result<void> read(std::int64_t sample, ByteBuffer& out) const override {
    {
      std::unique_lock lock(mutex_);
      ++reads_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_ || permits_ > 0; });
      if (!open_) --permits_;
    }
    if (broken_.contains(sample)) return fail(HVD_ERROR_SYSTEM, "is broken");
    const std::string text = std::to_string(sample);
    std::memcpy(out.append(text.size()).data(), text.data(), text.size());
    return {};
  }

  void break_sample(std::int64_t sample) { broken_.insert(sample); }  // call it before reading
  void close_gate() { open_ = false; }  // call it before reading: reads will block
  void open_gate() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void let_one_through() {
    const std::lock_guard lock(mutex_);
    ++permits_;
    changed_.notify_all();
  }
  int reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  void await_reads(int count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_ >= count; });
  }

 private:
  std::int64_t samples_;
  std::vector<std::string> classes_;
  std::set<std::int64_t> broken_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int reads_ = 0;
  mutable int permits_ = 0;
  bool open_ = true;
};

Reader open(std::shared_ptr<const Source> source, const ShardOptions& shard,
            ReaderOptions options = {}) {
  auto reader = Reader::open(std::move(source), shard, std::move(options));
  if (!reader.ok()) throw std::runtime_error(reader.error().message);
  return std::move(*reader);
}

std::string text_of(const Batch& batch, std::size_t i) {
  return {reinterpret_cast<const char*>(batch.data.data()) + batch.offsets[i],
          batch.offsets[i + 1] - batch.offsets[i]};
}

// Checks that bytes, labels and sizes belong to the indices. Returns "epoch.step[indices]".
std::string describe(const Batch& batch) {
  std::string text = std::to_string(batch.epoch) + "." + std::to_string(batch.step) + "[";
  EXPECT_EQ(batch.labels.size(), batch.indices.size());
  EXPECT_EQ(batch.offsets.size(), batch.indices.size() + 1);
  EXPECT_EQ(batch.offsets.back(), batch.data.size());
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    EXPECT_EQ(text_of(batch, i), std::to_string(batch.indices[i]));
    EXPECT_EQ(batch.labels[i], batch.indices[i] % 10);
    text += (i == 0 ? "" : " ") + text_of(batch, i);
  }
  return text + "]";
}

// Reads the rest of an epoch. Returns its batches and errors as text.
std::string read_epoch(Reader& reader) {
  std::string text;
  while (true) {
    const auto batch = reader.next();
    if (!batch.ok()) {
      text += "(" + batch.error().message + ")";
    } else if (*batch == nullptr) {
      return text;
    } else {
      text += describe(**batch);
    }
  }
}

// Returns what a reader must deliver in an epoch, computed with Shard.
std::string expected_epoch(ShardOptions options, std::int64_t epoch, std::int64_t from = 0) {
  options.epoch = epoch;
  const auto shard = Shard::make(options);
  std::string text;
  for (std::int64_t step = from; step < shard->steps(); ++step) {
    text += std::to_string(epoch) + "." + std::to_string(step) + "[";
    std::vector<std::int64_t> indices;
    EXPECT_TRUE(shard->indices(step, indices).ok());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(indices[i]);
    }
    text += "]";
  }
  return text;
}

TEST(Reader, DeliversTheShardWithAnyNumberOfThreads) {
  const ShardOptions shard{.samples = 50, .batch = 8, .epoch = 3, .seed = 5, .rank = 1, .size = 3};
  for (const int threads : {1, 2, 7}) {
    for (const int prefetch : {1, 2, 20}) {
      Reader reader = open(std::make_shared<MemorySource>(50), shard,
                           {.threads = threads, .prefetch = prefetch});
      EXPECT_EQ(reader.steps(), 7);
      for (std::int64_t epoch = 3; epoch < 7; ++epoch) {
        EXPECT_EQ(read_epoch(reader), expected_epoch(shard, epoch));
      }
    }
  }
}

TEST(Reader, ReportsTheBatchSizeOfAllRanks) {
  Reader reader = open(std::make_shared<MemorySource>(10), {.batch = 8, .rank = 1, .size = 3});
  EXPECT_EQ((*reader.next())->batch_size, 8);
  EXPECT_EQ((*reader.next())->batch_size, 2);
}

TEST(Reader, AnEmptyEpochEndsAtOnce) {
  Reader reader = open(std::make_shared<MemorySource>(0), {.batch = 8});
  EXPECT_EQ(reader.steps(), 0);
  EXPECT_EQ(*reader.next(), nullptr);
  EXPECT_EQ(*reader.next(), nullptr);
}

TEST(Reader, ThePartOfARankMayBeEmpty) {
  const ShardOptions shard{.samples = 2, .batch = 8, .rank = 0, .size = 5};
  Reader reader = open(std::make_shared<MemorySource>(2), shard);
  EXPECT_EQ(read_epoch(reader), "0.0[]");
  EXPECT_EQ(read_epoch(reader), "1.0[]");
}

TEST(Reader, ABrokenSampleFailsOnlyItsStep) {
  const auto source = std::make_shared<MemorySource>(6);
  source->break_sample(3);
  Reader reader = open(source, {.batch = 2, .shuffle = false});
  const std::string epoch = read_epoch(reader);
  EXPECT_EQ(epoch, "0.0[0 1](step 1 of epoch 0: made/3 (sample 3): is broken)0.2[4 5]");
  EXPECT_TRUE(read_epoch(reader).starts_with("1.0[0 1](step 1 of epoch 1"));
}

TEST(Reader, DecodesInItsThreads) {
  const auto caller = std::this_thread::get_id();
  const Decode twice = [=](const Sample& sample, SampleOutput& out) -> Result<void> {
    EXPECT_NE(std::this_thread::get_id(), caller);
    EXPECT_EQ(sample.name, "made/" + std::to_string(sample.index));
    const std::size_t bytes = sample.data.size();
    std::memcpy(out.resize(bytes), sample.data.data(), bytes);
    std::byte* const all = out.resize(2 * bytes);  // keeps the first bytes
    std::memcpy(all + bytes, sample.data.data(), bytes);
    out.set_label(sample.label + 100);
    return {};
  };
  Reader reader =
      open(std::make_shared<MemorySource>(12), {.batch = 12, .shuffle = false}, {.decode = twice});
  const Batch& batch = **reader.next();
  EXPECT_EQ(text_of(batch, 0), "00");
  EXPECT_EQ(text_of(batch, 11), "1111");
  EXPECT_EQ(batch.labels[7], 107);
}

TEST(Reader, AnErrorOrExceptionInDecodeFailsItsStep) {
  const Decode picky = [](const Sample& sample, SampleOutput&) -> Result<void> {
    if (sample.index == 1) return fail(HVD_ERROR_SYSTEM, "not a picture");
    if (sample.index == 2) throw std::runtime_error("thrown");
    return {};
  };
  Reader reader =
      open(std::make_shared<MemorySource>(4), {.batch = 1, .shuffle = false}, {.decode = picky});
  EXPECT_TRUE(reader.next().ok());
  EXPECT_EQ(reader.next().error().message, "step 1 of epoch 0: made/1 (sample 1): not a picture");
  EXPECT_EQ(reader.next().error().message, "step 2 of epoch 0: made/2 (sample 2): thrown");
  EXPECT_EQ((*reader.next())->data.size(), 0u);  // decode has returned no data
}

TEST(Reader, ACachedSampleIsReadOnce) {
  const auto source = std::make_shared<MemorySource>(20);
  const ShardOptions shard{.samples = 20, .batch = 3};
  Reader reader = open(source, shard, {.threads = 1, .cache = true});
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(read_epoch(reader), expected_epoch(shard, epoch));
  }
  EXPECT_EQ(source->reads(), 20);
}

TEST(Reader, CachedSamplesAreDecodedBySeveralThreads) {
  const Decode copy = [](const Sample& sample, SampleOutput& out) -> Result<void> {
    std::memcpy(out.resize(sample.data.size()), sample.data.data(), sample.data.size());
    return {};
  };
  const ShardOptions shard{.samples = 20, .batch = 3};
  Reader reader = open(std::make_shared<MemorySource>(20), shard,
                       {.threads = 4, .prefetch = 8, .cache = true, .decode = copy});
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(read_epoch(reader), expected_epoch(shard, epoch));
  }
}

TEST(Reader, ReadsAheadNoFurtherThanPrefetch) {
  const auto source = std::make_shared<MemorySource>(1000);
  {
    Reader reader = open(source, {.batch = 10}, {.threads = 4, .prefetch = 5});
    source->await_reads(60);  // 5 ready and one to be used
  }
  EXPECT_EQ(source->reads(), 60);
}

// Three threads read batches of 1,000. Closing must wait for a few samples only, not for whole
// batches.
TEST(Reader, CloseWaitsOnlyForTheSamplesBeingRead) {
  const auto source = std::make_shared<MemorySource>(1000);
  source->close_gate();
  auto reader =
      std::make_unique<Reader>(open(source, {.batch = 1000}, {.threads = 3, .prefetch = 3}));
  source->await_reads(3);
  auto closed = std::async(std::launch::async, [&] { reader.reset(); });
  while (closed.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    source->let_one_through();
  }
  EXPECT_LT(source->reads(), 3000);
}

TEST(Reader, MayBeClosedAtAnyTime) {
  for (int round = 0; round < 60; ++round) {
    Reader reader = open(std::make_shared<MemorySource>(40), {.batch = 3},
                         {.threads = 1 + round % 4, .prefetch = 1 + round % 5});
    for (int i = 0; i < round; ++i) EXPECT_TRUE(reader.next().ok());
  }
}

TEST(Reader, SeekContinuesAtThatStep) {
  const ShardOptions shard{.samples = 50, .batch = 8, .seed = 5};
  Reader reader = open(std::make_shared<MemorySource>(50), shard);
  EXPECT_TRUE(reader.next().ok());
  ASSERT_TRUE(reader.seek(4, 3).ok());
  EXPECT_EQ(read_epoch(reader), expected_epoch(shard, 4, 3));
  EXPECT_EQ(read_epoch(reader), expected_epoch(shard, 5));
  ASSERT_TRUE(reader.seek(2, 7).ok());  // after its last step
  EXPECT_EQ(read_epoch(reader), "");
  EXPECT_EQ(read_epoch(reader), expected_epoch(shard, 3));
}

TEST(Reader, FailedSeekKeepsThePosition) {
  const ShardOptions shard{.samples = 50, .batch = 8, .seed = 5};
  Reader reader = open(std::make_shared<MemorySource>(50), shard);
  for (const auto& [epoch, step] : {std::pair{0, 8}, {0, -1}, {-1, 0}}) {
    EXPECT_EQ(reader.seek(epoch, step).error().status, HVD_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(read_epoch(reader), expected_epoch(shard, 0));
}

TEST(Reader, InvalidOptionsFailWithTheirNames) {
  const auto source = std::make_shared<MemorySource>(10);
  const auto error = [&](const ShardOptions& shard, ReaderOptions options) {
    const auto reader = Reader::open(source, shard, std::move(options));
    return reader.ok() ? "none" : reader.error().message;
  };
  EXPECT_EQ(error({.batch = 2}, {.threads = 0}), "reader: threads is 0; it must be 1 to 1024");
  EXPECT_EQ(error({.batch = 2}, {.prefetch = -1}), "reader: prefetch is -1; it must be 1 to 65536");
  EXPECT_EQ(error({.samples = 11, .batch = 2}, {}),
            "reader: samples is 11, but the source has 10; leave it 0");
  EXPECT_TRUE(error({.batch = 0}, {}).starts_with("shard: batch is 0"));
}

// The child has none of the reader's threads, and their locks may be held for ever. The only thread
// waits in the source during the fork. If it allocated memory then, the child could not allocate
// any under the address sanitizer.
TEST(Reader, FailsInAForkedChildAndCanBeClosedThere) {
  const ShardOptions shard{.samples = 50, .batch = 8};
  const auto source = std::make_shared<MemorySource>(50);
  source->close_gate();
  auto reader = std::make_unique<Reader>(open(source, shard, {.threads = 1}));
  for (int i = 0; i < 8; ++i) source->let_one_through();
  EXPECT_TRUE(reader->next().ok());
  source->await_reads(9);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = reader->next().error().status == HVD_ERROR_FORKED &&
                         reader->seek(0, 0).error().status == HVD_ERROR_FORKED;
    reader.reset();
#ifdef __SANITIZE_THREAD__
    const bool own = true;  // the thread sanitizer allows no threads in such a child
#else
    Reader another = open(std::make_shared<MemorySource>(50), shard);
    const bool own = read_epoch(another) == expected_epoch(shard, 0);
#endif
    ::_exit(refused && own ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  source->open_gate();
  EXPECT_EQ(read_epoch(*reader), expected_epoch(shard, 0, 1));
}

}  // namespace
}  // namespace libhvd
