#include "slurm/node_names.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(NodeNames, AreReadFromScontrol) {
  const auto nodes = parse_node_names(
      "NodeName=n1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0 CPUTot=16\n"
      "   NodeAddr=10.0.0.1 NodeHostName=alpha Version=22.05\n   Comment=NodeAddr\n\n"
      "NodeName=n2 NodeHostName=n2\n");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].name, "n1");
  EXPECT_EQ(nodes[0].address, "10.0.0.1");
  EXPECT_EQ(nodes[0].host_name, "alpha");
  EXPECT_EQ(nodes[1].name, "n2");
  EXPECT_EQ(nodes[1].address, "");
  for (const auto* text : {"", "Node n9 not found\n", "NodeAddr=a NodeHostName=b", "NodeName="})
    EXPECT_TRUE(parse_node_names(text).empty()) << text;
}

}  // namespace
}  // namespace hvdrun
