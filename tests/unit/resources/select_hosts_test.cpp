#include "resources/select_hosts.hpp"

#include "base/host_list.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

Allocation hosts_n1_to_n5() {
  Allocation allocation;
  allocation.source = "SLURM job 7";
  for (const auto* name : {"n1.cluster", "n2", "n3", "n4", "n5"}) {
    Host host;
    host.name = host.address = name;
    allocation.hosts.push_back(host);
  }
  allocation.hosts[0].is_this_machine = true;
  return allocation;
}

// Returns the names of the remaining hosts and the reasons, or the error.
std::string left(const JobSpec& spec) {
  auto allocation = hosts_n1_to_n5();
  if (auto selected = select_hosts(spec, allocation); !selected) return selected.error().message;
  std::vector<std::string> names;
  for (const auto& host : allocation.hosts) names.push_back(host.name);
  std::string text = fold_hosts(names);
  for (const auto& reason : allocation.reasons) text += "; " + reason;
  return text;
}

struct SelectionCase {
  const char* what;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::optional<int> nodes;
  const char* left;
};

TEST(SelectHosts, IncludesAndExcludesHostsWithReasons) {
  const SelectionCase cases[] = {
      {"nothing asked", {}, {}, {}, "n1.cluster,n[2-5]"},
      {"include", {"n4", "n2"}, {}, {}, "n[2,4]; --include: all but these are left out: n[2,4]"},
      {"include by other names",
       {"n1", "n2.cluster"},
       {},
       {},
       "n1.cluster,n2; --include: all but these are left out: n1.cluster,n2"},
      {"include all of them",
       {"n1", "n2", "n3", "n4", "n5"},
       {},
       {},
       "n1.cluster,n[2-5]; --include: all hosts"},
      {"exclude", {}, {"n3", "n5"}, {}, "n1.cluster,n[2,4]; --exclude: left out: n[3,5]"},
      {"exclude this machine", {}, {"localhost"}, {}, "n[2-5]; --exclude: left out: n1.cluster"},
      {"exclude an unknown host", {}, {"n9"}, {}, "n1.cluster,n[2-5]"},
      {"the first", {}, {}, 2, "n1.cluster,n2; --nnodes: the first 2 of 5 hosts"},
      {"all of them", {}, {}, 5, "n1.cluster,n[2-5]"},
      {"exclude before the first",
       {},
       {"n1"},
       2,
       "n[2-3]; --exclude: left out: n1.cluster; --nnodes: the first 2 of 4 hosts"},
      {"include and exclude",
       {"n2", "n3"},
       {"n3"},
       {},
       "n2; --include: all but these are left out: n[2-3]; --exclude: left out: n3"},
  };
  for (const auto& test : cases) {
    JobSpec spec;
    spec.include = test.include;
    spec.exclude = test.exclude;
    spec.nodes = test.nodes;
    EXPECT_EQ(left(spec), test.left) << test.what;
  }
}

TEST(SelectHosts, ErrorsNameTheHosts) {
  JobSpec spec;
  spec.include = {"n2", "n8", "n9"};
  EXPECT_EQ(left(spec),
            "--include n[8-9]: not among the hosts of SLURM job 7, which are n1.cluster,n[2-5]");
  spec = {};
  spec.include = {"n2"};
  spec.exclude = {"n2"};
  EXPECT_EQ(left(spec), "--exclude leaves no host of SLURM job 7: n2 is left out");
  spec = {};
  spec.nodes = 6;
  EXPECT_EQ(left(spec), "--nnodes 6: there are only 5 hosts (SLURM job 7: n1.cluster,n[2-5])");
}

}  // namespace
}  // namespace hvdrun
