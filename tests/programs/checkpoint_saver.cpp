// Saves checkpoints without pause, or one step after the other under control of a file. For tests
// that kill it, fill its disk or unmount its folder.
//
//   checkpoint_saver FOLDER [--steps N] [--elements N] [--sharded] [--keep N] [--ready FILE]
//                    [--pace FILE] [--read]
//
// Rank 0 prints "loaded STEP" or "nothing", then "saved STEP" for each save. A rank whose save
// fails prints "failed STEP: MESSAGE". The content of step S is computed from S, and loaded content
// is checked: exit code 3 if it is inconsistent. --steps 0 only loads. --pace FILE: waits before
// the N-th save until FILE has N lines. --ready FILE: each rank appends the step that it has
// loaded.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <hvd/checkpoint.hpp>

namespace {

struct Arguments {
  std::string folder, ready, pace;
  std::uint64_t steps = ~std::uint64_t{0};
  std::size_t elements = 20000;
  hvd::CheckpointOptions options;
};

Arguments parse(int count, char** words) {
  Arguments arguments;
  arguments.folder = count > 1 ? words[1] : "";
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] { return std::string(i + 1 < count ? words[++i] : "0"); };
    if (word == "--steps") arguments.steps = std::stoull(value());
    if (word == "--elements") arguments.elements = std::stoull(value());
    if (word == "--keep") arguments.options.keep_last = std::stoi(value());
    if (word == "--sharded") arguments.options.sharded = true;
    if (word == "--read") arguments.options.read_only = true;
    if (word == "--ready") arguments.ready = value();
    if (word == "--pace") arguments.pace = value();
  }
  return arguments;
}

class Model {
 public:
  explicit Model(std::size_t elements) : weights_(elements), moments_(elements / 2) {
    state_.add("weights", weights_);
    state_.add("moments", moments_);
    state_.add("step", step_);
    state_.add("random", random_);
  }

  void make(std::uint64_t step) {
    step_ = step;
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = weight(i);
    for (std::size_t i = 0; i < moments_.size(); ++i) moments_[i] = weight(i) / 2;
    random_ = std::to_string(step);
  }

  bool fits(std::uint64_t step) const {
    if (step_ != step || random_ != std::to_string(step)) return false;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (weights_[i] != weight(i)) return false;
    for (std::size_t i = 0; i < moments_.size(); ++i)
      if (moments_[i] != weight(i) / 2) return false;
    return true;
  }

  hvd::State& state() { return state_; }

 private:
  float weight(std::size_t i) const { return static_cast<float>((step_ * 31 + i) % 65536); }

  std::vector<float> weights_;
  std::vector<double> moments_;
  std::uint64_t step_ = 0;
  std::string random_;
  hvd::State state_;
};

// Waits until the file has that many lines.
void wait_for_pace(const std::string& path, std::uint64_t lines) {
  while (true) {
    std::ifstream file(path);
    const auto there = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    if (static_cast<std::uint64_t>(there) >= lines) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int run(const Arguments& arguments) {
  hvd::init();
  hvd::Checkpoints checkpoints(arguments.folder, arguments.options);
  Model model(arguments.elements);
  std::uint64_t step = 0;
  if (const auto loaded = checkpoints.load(model.state())) {
    step = loaded->step;
    if (!model.fits(step)) {
      std::cerr << "the checkpoint of step " << step << " does not fit together" << std::endl;
      return 3;
    }
    hvd::root_out() << "loaded " << step << std::endl;
  } else {
    hvd::root_out() << "nothing" << std::endl;
  }
  if (!arguments.ready.empty()) std::ofstream(arguments.ready, std::ios::app) << step << '\n';
  const std::uint64_t last = arguments.steps > ~step ? ~std::uint64_t{0} : step + arguments.steps;
  for (std::uint64_t count = 1; step < last; ++count) {
    if (!arguments.pace.empty()) wait_for_pace(arguments.pace, count);
    model.make(++step);
    try {
      checkpoints.save(model.state(), step, 1.0 / static_cast<double>(step));
      if (!arguments.pace.empty()) checkpoints.wait();
      hvd::root_out() << "saved " << step << std::endl;
    } catch (const hvd::Error& error) {
      if (error.status() == HVD_ERROR_PEER) throw;
      std::cout << "failed " << step << ": " << error.what() << std::endl;
    }
  }
  checkpoints.wait();
  checkpoints.close();
  hvd::shutdown();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(parse(count, words));
  } catch (const std::exception& error) {
    std::cerr << "checkpoint_saver: " << error.what() << std::endl;
    return 2;
  }
}
