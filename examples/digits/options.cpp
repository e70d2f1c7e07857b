#include "options.hpp"

#include <charconv>
#include <string_view>

namespace digits {
namespace {

template <class T>
T parse_number(std::string_view option, std::string_view text, T least, T most) {
  T value{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && stop == text.data() + text.size();
  if (!whole || !(value >= least && value <= most)) {
    throw UsageError(std::string(option) + " takes a number from " + std::to_string(least) +
                     " to " + std::to_string(most) + ", not \"" + std::string(text) + '"');
  }
  return value;
}

}  // namespace

const char* const kUsage =
    "usage: digits [--epochs N] [--batch N] [--learning-rate X] [--seed N] [--data FILE] "
    "[--quiet]\n";

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == argc) throw UsageError(std::string(option) + " needs a value");
      return argv[++i];
    };
    if (option == "--epochs") {
      options.epochs = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--batch") {
      options.batch = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--learning-rate") {
      options.learning_rate = parse_number(option, value(), 1e-6, 10.0);
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(option, value(), 0, UINT64_MAX);
    } else if (option == "--data") {
      options.data = value();
    } else if (option == "--quiet") {
      options.quiet = true;
    } else if (option == "--help") {
      options.help = true;
    } else {
      throw UsageError("unknown option \"" + std::string(option) + '"');
    }
  }
  return options;
}

}  // namespace digits
