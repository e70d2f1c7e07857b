// Measures checkpoints for bench/io. Prints seconds on stdout.
//
//   checkpoint_bench save FOLDER MEGABYTES          a save until it is complete, after a warm-up
//   checkpoint_bench load FOLDER ROUNDS cold|warm   ROUNDS lines: reading the file once, loading it
//   checkpoint_bench step FOLDER MEGABYTES STEPS ROUNDS
//       ROUNDS lines: STEPS steps of computing without a save, the same with a save at the begin,
//       and the time in which save() blocked the program
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <hvd/checkpoint.hpp>
#include <unistd.h>

namespace {

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Tensors with names, in sizes that are typical of networks.
struct Model {
  explicit Model(std::size_t megabytes) {
    const std::size_t elements = megabytes * 1'000'000 / sizeof(float);
    const std::vector<std::size_t> sizes{4'194'304, 1'048'576, 4096, 1024};
    std::size_t left = elements;
    for (std::size_t i = 0; left > 0; ++i) {
      tensors.emplace_back(std::min(left, sizes[i % sizes.size()]));
      left -= tensors.back().size();
    }
    std::minstd_rand random;
    for (auto& tensor : tensors) {
      for (float& value : tensor) value = static_cast<float>(random());
    }
    for (std::size_t i = 0; i < tensors.size(); ++i)
      state.add("layer" + std::to_string(i), tensors[i]);
  }

  std::vector<std::vector<float>> tensors;
  hvd::State state;
};

void save(const std::string& folder, std::size_t megabytes) {
  Model model(megabytes);
  hvd::Checkpoints checkpoints(folder, {.keep_last = 1});
  double last = 0;
  for (std::uint64_t step = 0; step < 2; ++step) {
    last = seconds([&] {
      checkpoints.save(model.state, step);
      checkpoints.wait();
    });
  }
  std::printf("%.6f\n", last);
}

void drop_from_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

void read_once(const std::string& path) {
  static std::vector<char> room(std::size_t{4} << 20);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  while (::read(fd, room.data(), room.size()) > 0) {
  }
  ::close(fd);
}

void load(const std::string& folder, int rounds, bool cold) {
  hvd::Checkpoints checkpoints(folder, {.read_only = true});
  const auto found = checkpoints.find();
  std::size_t bytes = 0;
  for (const auto& item : found->items) bytes += item.bytes;
  Model model(bytes / 1'000'000);
  for (int round = -1; round < rounds; ++round) {  // the first is a warm-up
    double reading = 0;
    if (hvd::rank() == 0) {
      if (cold) drop_from_cache(found->path);
      reading = seconds([&] { read_once(found->path); });
      if (cold) drop_from_cache(found->path);
    }
    hvd::barrier();
    const double own = seconds([&] { checkpoints.load(model.state); });
    const double all = hvd::allreduce(own, hvd::Op::max);
    if (hvd::rank() == 0 && round >= 0) std::printf("%.6f %.6f\n", reading, all);
  }
}

// Computes as long as a training step: arithmetic and memory accesses like those of a layer.
class Step {
 public:
  Step() : a_(kSide * kSide, 0.5f), b_(kSide * kSide, 0.25f), c_(kSide * kSide) {}

  void run() {
    std::fill(c_.begin(), c_.end(), 0.0f);
    for (std::size_t i = 0; i < kSide; ++i) {
      for (std::size_t k = 0; k < kSide; ++k) {
        const float factor = a_[i * kSide + k];
        for (std::size_t j = 0; j < kSide; ++j) c_[i * kSide + j] += factor * b_[k * kSide + j];
      }
    }
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = std::fmod(c_[i], 1.0f);
  }

 private:
  static constexpr std::size_t kSide = 640;
  std::vector<float> a_, b_, c_;
};

void step(const std::string& folder, std::size_t megabytes, int steps, int rounds) {
  Model model(megabytes);
  hvd::Checkpoints checkpoints(folder, {.keep_last = 1});
  Step work;
  const auto compute = [&] {
    for (int i = 0; i < steps; ++i) work.run();
  };
  for (int round = -1; round < rounds; ++round) {
    const double plain = seconds(compute);
    double held = 0;
    const double with_save = seconds([&] {
      held = seconds([&] { checkpoints.save(model.state, static_cast<std::uint64_t>(round) + 1); });
      compute();
    });
    checkpoints.wait();
    if (round >= 0) std::printf("%.6f %.6f %.6f\n", plain, with_save, held);
  }
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  const auto number = [&](std::size_t index) { return std::stoi(arguments.at(index)); };
  try {
    hvd::init();
    if (arguments.at(0) == "save") {
      save(arguments.at(1), static_cast<std::size_t>(number(2)));
    } else if (arguments.at(0) == "load") {
      load(arguments.at(1), number(2), arguments.at(3) == "cold");
    } else {
      step(arguments.at(1), static_cast<std::size_t>(number(2)), number(3), number(4));
    }
    hvd::shutdown();
  } catch (const std::exception& error) {
    std::cerr << "checkpoint_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
