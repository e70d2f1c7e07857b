// Trains a small network on handwritten digits, on any number of ranks:
//
//   ./digits                      one rank
//   hvdrun -np 4 ./digits         four ranks, the same losses
//
// training.cpp is where the ranks work together.
#include "data_path.hpp"
#include "dataset.hpp"
#include "network.hpp"
#include "options.hpp"
#include "training.hpp"

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <hvd/hvd.hpp>
#include <unistd.h>

namespace {

constexpr int kExitUsage = 2;

void introduce_rank() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::ostringstream line;  // in one write, so that ranks do not mix
  line << "rank " << hvd::rank() << " of " << hvd::size() << " on " << host << ", pid " << getpid()
       << '\n';
  std::cout << line.str() << std::flush;
}

void run(const digits::Options& options) {
  if (!options.quiet) introduce_rank();
  const std::string path = options.data.empty() ? digits::default_data_path() : options.data;
  const digits::Split split = digits::split_dataset(digits::share_dataset(path));

  digits::Network network(options.seed);
  digits::train(network, split.training, options);
  const digits::Metrics metrics = digits::evaluate(network, split.test);
  hvd::rank0() << "test accuracy: " << std::fixed << std::setprecision(1) << 100 * metrics.accuracy
               << " %" << std::endl;
}

// Trouble that all ranks have alike is said once, and nobody leaves before it is: the first to
// leave with an error ends the job.
int say_once(const std::string& text, int exit_code) {
  if (hvd::rank() == 0) std::cerr << "digits: " << text << std::flush;
  hvd_barrier(nullptr);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hvd::init();
    const digits::Options options = digits::parse_options(argc, argv);
    if (options.help) {
      hvd::rank0() << digits::kUsage;
    } else {
      run(options);
    }
    hvd::shutdown();
    return EXIT_SUCCESS;
  } catch (const digits::UsageError& error) {
    return say_once(error.what() + ('\n' + std::string(digits::kUsage)), kExitUsage);
  } catch (const digits::DataError& error) {
    return say_once(error.what() + std::string("\n"), EXIT_FAILURE);
  } catch (const hvd::Error& error) {
    std::cerr << "digits: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
