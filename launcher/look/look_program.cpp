#include "look/look_program.hpp"

#include "look/look_json.hpp"
#include "look/look_text.hpp"
#include "look/look_worker.hpp"
#include "look/nccl_ras.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <getopt.h>

namespace hvdrun {
namespace {

constexpr int kOk = 0;
constexpr int kNothing = 1;
constexpr int kWrongUse = 2;

// The looks take less, if nothing hangs.
constexpr std::chrono::milliseconds kLongestQuestion{2500};

constexpr const char* kHelp =
    R"(usage: hvdrun-look [options] PID...

Prints what each process does: its threads, their states, what they wait for, and
their stacks, in Python and in C++. The process needs no preparation and runs on. It
is stopped for at most 50 ms. The output is a line of JSON for each process.

  --text            prints text for people
  --all             with --text: also the functions of the Python interpreter
  --twice           looks twice, and says what moved
  --interval MS     with --twice: the time between the looks (default: 500)
  --time-limit S    gives up a process after so many seconds (default: 5)
  --depth N         at most N frames of a stack in each language (default: 128)
  --programs        looks at the programs that the processes have started, where these
                    only wait for them: shells, torchrun, numactl, debuggers
  --nccl            also asks NCCL's RAS which collectives the ranks of the job have called
  --no-stop         does not stop the process; threads that run have no native stack
  --help            prints this

Native stacks need libdw.so.1 of elfutils. The exit code is 0 if something was found
of at least one process, 1 if of none, and 2 if the command line is wrong.
)";

struct Parsed {
  LookRequest request;
  bool text = false;
  bool all = false;
  bool nccl = false;
};

std::optional<long> number(const char* text, long least, long most) {
  long value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value < least || value > most) return std::nullopt;
  return value;
}

int wrong(const std::string& what) {
  std::fprintf(stderr, "hvdrun-look: error: %s (see hvdrun-look --help)\n", what.c_str());
  return kWrongUse;
}

// Takes a number for an option. Returns kOk, or the code to end with.
int take_number(int option, const char* text, Parsed& parsed) {
  constexpr long kDay = 86400;
  if (option == 'i') {
    const auto value = number(text, 1, kDay * 1000);
    if (!value) return wrong("--interval needs a number of milliseconds");
    parsed.request.interval = std::chrono::milliseconds(*value);
  } else if (option == 'l') {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value <= kDay))
      return wrong("--time-limit needs a number of seconds");
    parsed.request.limit = std::chrono::milliseconds(std::llround(std::ceil(value * 1000)));
  } else {
    const auto value = number(text, 1, 10000);
    if (!value) return wrong("--depth needs a number from 1 to 10000");
    parsed.request.depth = static_cast<std::size_t>(*value);
  }
  return kOk;
}

// Returns nullopt if there is something to look at, or the code to end with.
std::optional<int> parse(int argc, char** argv, Parsed& parsed) {
  const auto options = std::to_array<option>({{"text", no_argument, nullptr, 't'},
                                              {"all", no_argument, nullptr, 'a'},
                                              {"twice", no_argument, nullptr, '2'},
                                              {"interval", required_argument, nullptr, 'i'},
                                              {"time-limit", required_argument, nullptr, 'l'},
                                              {"depth", required_argument, nullptr, 'd'},
                                              {"programs", no_argument, nullptr, 'p'},
                                              {"nccl", no_argument, nullptr, 'r'},
                                              {"no-stop", no_argument, nullptr, 'n'},
                                              {"help", no_argument, nullptr, 'h'},
                                              {nullptr, 0, nullptr, 0}});
  for (int found = 0; (found = ::getopt_long(argc, argv, "h", options.data(), nullptr)) != -1;) {
    switch (found) {
      case 't':
        parsed.text = true;
        break;
      case 'a':
        parsed.all = true;
        break;
      case '2':
        parsed.request.twice = true;
        break;
      case 'p':
        parsed.request.programs = true;
        break;
      case 'r':
        parsed.nccl = true;
        break;
      case 'n':
        parsed.request.stop = false;
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        return kOk;
      case 'i':
      case 'l':
      case 'd':
        if (const int code = take_number(found, optarg, parsed); code != kOk) return code;
        break;
      default:
        return kWrongUse;
    }
  }
  for (int index = optind; index < argc; ++index) {
    const auto pid = number(argv[index], 1, 1L << 30);
    if (!pid) return wrong(std::string("not a process id: ") + argv[index]);
    parsed.request.pids.push_back(static_cast<pid_t>(*pid));
  }
  if (parsed.request.pids.empty()) return wrong("name at least one process id");
  if (parsed.request.twice) parsed.request.limit += parsed.request.interval;
  return std::nullopt;
}

}  // namespace

int look_program(int argc, char** argv) {
  Parsed parsed;
  if (const auto code = parse(argc, argv, parsed)) return *code;
  const bool text = parsed.text;
  const bool all = parsed.all;
  parsed.request.print = [text, all](const ProcessLook& look) {
    return text ? look_text(look, all) : look_json(look) + "\n";
  };
  std::optional<NcclQuestion> question;
  if (parsed.nccl)
    question.emplace(parsed.request.pids, parsed.request.interval,
                     std::min(parsed.request.limit, kLongestQuestion));
  bool found = false;
  run_looks(parsed.request, [&](pid_t pid, const std::string& printed) {
    if (printed.empty()) {
      const bool is_gone = ::kill(pid, 0) != 0 && errno == ESRCH;
      std::fprintf(stderr, "hvdrun-look: error: %s %d\n",
                   is_gone ? "there is no process" : "nothing was found of process", pid);
      return;
    }
    found = true;
    std::fputs(printed.c_str(), stdout);
    std::fflush(stdout);
  });
  if (question) std::fputs(question->wait().c_str(), stdout);
  return found ? kOk : kNothing;
}

}  // namespace hvdrun
