// Compares hvdrun's parser of host lists with SLURM's: `scontrol show hostnames`, which needs no
// daemon. A generator with a fixed seed makes the lists.
#include "../temporary_folder.hpp"
#include "base/host_list.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace hvdrun {
namespace {

class Scontrol : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(configuration_) << "ClusterName=test\nSlurmctldHost=localhost\n";
    ASSERT_EQ(run("n1"), "n1\n") << "this test needs scontrol (Debian: slurm-client)";
  }

  // Returns what scontrol prints for a list, errors included.
  std::string run(const std::string& list) const {
    const auto command = fmt::format("SLURM_CONF='{}' scontrol show hostnames '{}' 2>&1",
                                     configuration_.string(), list);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    std::array<char, 65536> buffer;
    while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
      text.append(buffer.data(), count);
    return text;
  }

  // Returns the hosts of each list, from one run of scontrol. A host named "between" separates the
  // lists.
  std::vector<std::vector<std::string>> expand(const std::vector<std::string>& lists) const {
    std::string joined;
    for (const auto& list : lists) joined += list + ",between,";
    std::vector<std::vector<std::string>> expanded(1);
    std::istringstream lines(run(joined + "end"));
    for (std::string line; std::getline(lines, line);) {
      if (line == "between")
        expanded.emplace_back();
      else
        expanded.back().push_back(line);
    }
    EXPECT_EQ(expanded.back(), std::vector<std::string>{"end"}) << joined;
    expanded.pop_back();
    return expanded;
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path configuration_ = folder_.path() / "slurm.conf";
};

// Makes host lists with several entries, brackets and ranges, and numbers with and without padding.
class Generator {
 public:
  std::string list() {
    std::string text = entry();
    for (int more = number(0, 3); more > 0; --more) text += "," + entry();
    return text;
  }

 private:
  int number(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  std::string word() {
    static constexpr std::array kWords = {"n", "node", "gpu-a", "r1c", "x_", "Rack", "a.b-", "c0"};
    return kWords[static_cast<std::size_t>(number(0, kWords.size() - 1))];
  }

  // "7", "08-11", "098-102"
  std::string range(int most) {
    const int first = number(0, 1) == 0 ? number(0, 12) : number(90, 105);
    const int width = number(0, 1) == 0 ? 1 : number(1, 5);
    const auto text = fmt::format("{:0{}}", first, width);
    if (number(0, 2) == 0) return text;
    const int last = first + number(0, most);
    return text + "-" +
           (number(0, 1) == 0 ? fmt::format("{:0{}}", last, width) : std::to_string(last));
  }

  std::string bracket(int most) {
    std::string text = range(most);
    for (int more = number(0, 2); more > 0; --more) text += "," + range(most);
    return "[" + text + "]";
  }

  std::string entry() {
    std::string text = word();
    const int brackets = std::array{0, 1, 1, 1, 1, 2, 2, 3}[static_cast<std::size_t>(number(0, 7))];
    if (brackets == 0) return text + std::to_string(number(0, 200));
    const int most = brackets < 3 ? 15 : 3;
    for (int i = 0; i < brackets; ++i)
      text += (i > 0 && number(0, 2) > 0 ? word() : "") + bracket(most);
    return text;
  }

  std::mt19937 random_{22058};
};

TEST_F(Scontrol, ListsTheSameHostsInTheSameOrder) {
  constexpr int kRuns = 100;
  constexpr int kListsPerRun = 30;
  Generator generator;
  for (int i = 0; i < kRuns; ++i) {
    std::vector<std::string> lists;
    for (int j = 0; j < kListsPerRun; ++j) lists.push_back(generator.list());
    const auto expected = expand(lists);
    ASSERT_EQ(expected.size(), lists.size());
    for (std::size_t j = 0; j < lists.size(); ++j) {
      const auto hosts = expand_host_list(lists[j]);
      ASSERT_TRUE(hosts) << lists[j] << ": " << hosts.error().message;
      ASSERT_EQ(*hosts, expected[j]) << lists[j];
    }
  }
}

TEST_F(Scontrol, ReadsFoldedHosts) {
  Generator generator;
  for (int i = 0; i < 100; ++i) {
    const auto list = generator.list();
    // fold_hosts() folds the host part of a domain name; scontrol accepts no digits after brackets.
    if (list.find('.') != std::string::npos) continue;
    auto hosts = expand_host_list(list).value();
    auto read = expand({fold_hosts(hosts)}).at(0);
    std::sort(hosts.begin(), hosts.end());
    std::sort(read.begin(), read.end());
    ASSERT_EQ(read, hosts) << list << " folds to " << fold_hosts(hosts);
  }
}

TEST_F(Scontrol, RefusesListsThatHvdrunRefuses) {
  for (const auto* list : {"n[3-1]", "n[]", "n[a-b]", "n[1-2-3]", "n[-1]", "n[1,,2]", "n[1-2,]",
                           "n[0x10]", "n[1-65537]", "n[1-2,b]", "r[1-2]n[5-4]"}) {
    EXPECT_THAT(run(list), testing::HasSubstr("Invalid hostlist")) << list;
    EXPECT_FALSE(expand_host_list(list)) << list;
  }
}

}  // namespace
}  // namespace hvdrun
