// Reading training data through C++ and the C ABI, from real files.
#include "support.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <hvd/data.hpp>

namespace {

using libhvd::test::Child;
using libhvd::test::Job;
using libhvd::test::TemporaryFolder;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Makes three classes with four files each. A file's text is its path.
void make_images(const TemporaryFolder& folder) {
  for (const std::string name : {"cat", "dog", "owl"}) {
    std::filesystem::create_directory(folder.file(name));
    for (int i = 0; i < 4; ++i) {
      const std::string file = name + "/" + std::to_string(i) + ".png";
      std::ofstream(folder.file(file)) << file;
    }
  }
}

TEST(ReaderAbi, ReadsAFolderOfImages) {
  const TemporaryFolder folder;
  make_images(folder);
  const auto source = hvd::Source::folder(folder.path());
  EXPECT_EQ(source.samples(), 12);
  EXPECT_EQ(source.classes(), 3);
  EXPECT_EQ(source.class_name(1), "dog");
  EXPECT_EQ(hvd::Source::folder(folder.path(), "").samples(), 12);
  std::set<std::string> seen;
  for (const int rank : {0, 1}) {
    hvd::Reader reader(source, {.batch = 5, .seed = 1, .rank = rank, .size = 2}, {.threads = 3});
    EXPECT_EQ(reader.steps(), 3);
    while (const auto batch = reader.next()) {
      EXPECT_EQ(batch->batch_size(), batch->step() == 2 ? 2 : 5);
      EXPECT_EQ(batch->epoch(), 0);
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const std::string text = text_of(batch->sample(i));
        EXPECT_TRUE(text.starts_with(source.class_name(batch->labels()[i]))) << text;
        EXPECT_EQ(batch->indices()[i] / 4, batch->labels()[i]);
        EXPECT_TRUE(seen.insert(text).second) << text;
      }
    }
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(ReaderAbi, DecodesWithAFunctionOfTheProgram) {
  const TemporaryFolder folder;
  {
    hvd::RecordWriter writer(folder.file("data.tfrecord"));
    for (int i = 0; i < 20; ++i) writer.write(std::to_string(i));
    writer.close();
  }
  const auto to_float = [](const hvd::Sample& sample, hvd::Output& out) {
    EXPECT_EQ(sample.label, -1);
    const float value = std::stof(text_of(sample.data));
    std::memcpy(out.resize(sizeof value).data(), &value, sizeof value);
    out.set_label(sample.index + 1);
  };
  const auto source = hvd::Source::tfrecord(folder.file("data.tfrecord"));
  hvd::Reader reader(source, {.batch = 20, .shuffle = false, .size = 1}, {.decode = to_float});
  const auto batch = reader.next();
  ASSERT_TRUE(batch);
  for (std::size_t i = 0; i < 20; ++i) {
    float value = 0;
    std::memcpy(&value, batch->sample(i).data(), sizeof value);
    EXPECT_EQ(value, static_cast<float>(i));
    EXPECT_EQ(batch->labels()[i], static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(batch->data().size(), 20 * sizeof(float));
}

TEST(ReaderAbi, AnExceptionInDecodeNamesTheFile) {
  const TemporaryFolder folder;
  make_images(folder);
  const auto source = hvd::Source::folder(folder.path());
  const auto refuse = [](const hvd::Sample&, hvd::Output&) {
    throw std::runtime_error("not a picture");
  };
  hvd::Reader reader(source, {.batch = 1, .shuffle = false, .size = 1}, {.decode = refuse});
  try {
    reader.next();
    FAIL() << "no exception";
  } catch (const hvd::Error& error) {
    EXPECT_EQ(error.what(), "hvd_reader_next: step 0 of epoch 0: " +
                                folder.file("cat/0.png (sample 0): not a picture"));
  }
}

TEST(ReaderAbi, ADamagedRecordIsNamedAndTheOthersAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder.file("data.tfrecord");
  {
    hvd::RecordWriter writer(path);
    for (int i = 0; i < 4; ++i) writer.write("record");
    writer.close();
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * 22 + 14);  // in the data of record 2
    file.put('X');
  }
  const auto source = hvd::Source::tfrecord(path);
  hvd::Reader reader(source, {.batch = 1, .shuffle = false, .size = 1});
  std::string outcomes;
  for (int i = 0; i < 4; ++i) {
    try {
      outcomes += text_of(reader.next()->data()) + " ";
    } catch (const hvd::Error& error) {
      EXPECT_TRUE(
          std::strstr(error.what(), (path + " record 2 (sample 2): the data is damaged").c_str()))
          << error.what();
      outcomes += "error ";
    }
  }
  EXPECT_EQ(outcomes, "record record error record ");
  EXPECT_FALSE(reader.next());
}

TEST(ReaderAbi, KeepsItsSourceAlive) {
  const TemporaryFolder folder;
  make_images(folder);
  auto reader = [&] {
    const auto source = hvd::Source::folder(folder.path());
    return hvd::Reader(source, {.batch = 12, .size = 1}, {.cache = true});
  }();
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto batch = reader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->size(), 12u);
    EXPECT_FALSE(reader.next());
  }
  reader.seek(1);
  EXPECT_EQ(reader.next()->epoch(), 1);
}

TEST(ReaderAbi, RefusesNullPointersAndMissingFiles) {
  hvd_source* source = nullptr;
  hvd_reader* reader = nullptr;
  hvd_record_writer* writer = nullptr;
  const hvd_batch* batch = nullptr;
  const char* name = nullptr;
  std::int64_t number = 0;
  hvd_shard_options shard{};
  EXPECT_EQ(hvd_source_open_folder(nullptr, nullptr, &source), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_source_open_tfrecord("/nonexistent", &source), HVD_ERROR_SYSTEM);
  EXPECT_STREQ(hvd_last_error(),
               "hvd_source_open_tfrecord: /nonexistent: cannot be opened: No such "
               "file or directory");
  EXPECT_EQ(hvd_source_open_fixed("/dev/null", 4, 0, &source), HVD_ERROR_SYSTEM);
  EXPECT_EQ(hvd_source_open_fixed("/dev/null", 4, 0, nullptr), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_source_samples(nullptr, &number), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_source_class_name(nullptr, 0, &name), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_reader_open(nullptr, &shard, nullptr, &reader), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_reader_next(nullptr, &batch), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_reader_steps(nullptr, &number), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_reader_seek(nullptr, 0, 0), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_record_writer_open("/nonexistent/file", &writer), HVD_ERROR_SYSTEM);
  EXPECT_EQ(hvd_record_writer_write(nullptr, "", 0), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_record_writer_close(nullptr), HVD_ERROR_INVALID_ARGUMENT);
  hvd_source_free(nullptr);
  hvd_reader_close(nullptr);
  hvd_record_writer_discard(nullptr);
}

TEST(ReaderAbi, UnknownClassFails) {
  const TemporaryFolder folder;
  make_images(folder);
  const auto source = hvd::Source::folder(folder.path());
  EXPECT_THROW(static_cast<void>(source.class_name(3)), hvd::Error);
  EXPECT_THROW(static_cast<void>(source.class_name(-1)), hvd::Error);
}

TEST(ReaderOfTheJob, DetectsThatRanksHaveDifferentFiles) {
  const TemporaryFolder folder;
  make_images(folder);
  const TemporaryFolder other;
  make_images(other);
  std::ofstream(other.file("owl/more.png")) << "more";
  Job job(2, [&](int rank, const Child::Report& report) {
    hvd::init();
    hvd::Source::folder(folder.path()).check_same_on_all_ranks();
    report("same");
    try {
      hvd::Source::folder(rank == 0 ? folder.path() : other.path()).check_same_on_all_ranks();
      report("same");
    } catch (const hvd::Error& error) {
      report(error.what());
    }
    hvd::shutdown();
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job.rank(rank).line(), "same");
    EXPECT_EQ(job.rank(rank).line(), "the ranks do not see the same files of training data");
  }
}

}  // namespace
