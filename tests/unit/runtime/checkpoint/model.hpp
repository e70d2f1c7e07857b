// A small state for tests, which can check its own content, and helpers that save and load it.
#pragma once

#include "checkpoint/checkpoints.hpp"
#include "support.hpp"

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::checkpoint::test {

using libhvd::test::run_ranks;
using libhvd::test::TemporaryFolder;

// Tensors of several sizes, a number, an empty tensor and bytes, all made from one number.
class Model {
 public:
  explicit Model(std::size_t weights = 3000) : weights_(weights), bias_(7) {}

  void fill(std::int64_t seed) {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = static_cast<float>(seed) + static_cast<float>(i) / 1024;
    for (std::size_t i = 0; i < bias_.size(); ++i)
      bias_[i] = static_cast<double>(seed) * static_cast<double>(i);
    epoch_ = seed;
    text_ = std::string(static_cast<std::size_t>(seed % 50), 'a') + std::to_string(seed);
  }

  // Returns the number it was filled from; -1 if its parts do not match.
  std::int64_t seed() const {
    Model expected(weights_.size());
    expected.fill(epoch_);
    const bool same =
        expected.weights_ == weights_ && expected.bias_ == bias_ && expected.text_ == text_;
    return same ? epoch_ : -1;
  }

  std::vector<Item> items() {
    return {tensor("weights", HVD_FLOAT32, weights_), tensor("none", HVD_INT32, none_),
            tensor("bias", HVD_FLOAT64, bias_), number(), text()};
  }

 private:
  template <class T>
  static Item tensor(std::string name, hvd_item_type type, std::vector<T>& values) {
    Item item;
    item.description = {std::move(name),
                        type,
                        {static_cast<std::int64_t>(values.size())},
                        values.size() * sizeof(T)};
    item.data = reinterpret_cast<std::byte*>(values.data());
    return item;
  }
  Item number() {
    Item item;
    item.description = {"epoch", HVD_INT64, {}, sizeof epoch_};
    item.data = reinterpret_cast<std::byte*>(&epoch_);
    return item;
  }
  Item text() {
    Item item;
    item.description = {"text", HVD_ITEM_BYTES, {}, text_.size()};
    item.data = reinterpret_cast<std::byte*>(text_.data());
    item.resize = [this](std::size_t bytes) {
      text_.resize(bytes);
      return reinterpret_cast<std::byte*>(text_.data());
    };
    return item;
  }

  std::vector<float> weights_;
  std::vector<std::int32_t> none_;
  std::vector<double> bias_;
  std::int64_t epoch_ = 0;
  std::string text_;
};

inline std::unique_ptr<Checkpoints> open(Communicator& communicator, const std::string& folder,
                                         const Options& options = {}) {
  auto opened = Checkpoints::open(communicator, folder, options);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return std::move(*opened);
}

inline std::string message_of(const Result<void>& outcome) {
  return outcome.ok() ? "" : outcome.error().message;
}

// Saves a model filled from the step's number, and waits for it.
inline Result<void> save(Checkpoints& checkpoints, Communicator& communicator, std::uint64_t step,
                         std::optional<double> metric = {}) {
  Model model;
  model.fill(static_cast<std::int64_t>(step));
  HVD_CHECK(checkpoints.save(communicator, model.items(), step, metric));
  return checkpoints.wait(communicator);
}

// Loads a checkpoint, and returns its step; -1: none, -2: an error. Expects the content of that
// step.
inline std::int64_t load(Checkpoints& checkpoints, Communicator& communicator,
                         hvd_which which = HVD_NEWEST) {
  Model model;
  auto items = model.items();
  const auto found = checkpoints.load(communicator, items, which);
  if (!found.ok()) return -2;
  if (!*found) return -1;
  EXPECT_EQ(model.seed(), static_cast<std::int64_t>((*found)->index.step));
  return static_cast<std::int64_t>((*found)->index.step);
}

// Returns the names of the checkpoints' files in a folder, the newest save first.
inline std::vector<FileName> names_in(const std::string& folder) {
  auto names = list_folder(folder);
  EXPECT_TRUE(names.ok());
  return std::move(*names);
}

// Returns the steps of the checkpoints in a folder, without files of parts.
inline std::vector<std::uint64_t> steps_in(const std::string& folder) {
  std::vector<std::uint64_t> steps;
  for (const FileName& name : names_in(folder)) {
    if (!name.is_part) steps.push_back(name.step);
  }
  return steps;
}

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace libhvd::checkpoint::test
