#include "cli/horovod_module.hpp"

#include "temporary_folder.hpp"

#include <gmock/gmock.h>

namespace hvdrun::cli {
namespace {

class FindHorovodModule : public testing::Test {
 protected:
  Result<PythonFolders> find() const { return find_horovod_module(share_); }

  TemporaryFolder folder_;
  std::filesystem::path share_ = folder_.path() / "prefix/share";
};

TEST_F(FindHorovodModule, FindsTheInstalledModule) {
  folder_.write("prefix/share/hvdrun/horovod/horovod/__init__.py", "");
  folder_.write("prefix/share/hvd/python/hvd/__init__.py", "");
  const auto found = find();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->horovod, share_ / "hvdrun/horovod");
  EXPECT_EQ(found->hvd, share_ / "hvd/python");
}

TEST_F(FindHorovodModule, LeavesHvdToPythonIfPipHasInstalledIt) {
  folder_.write("prefix/share/hvdrun/horovod/horovod/__init__.py", "");
  const auto found = find();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->hvd.empty()) << found->hvd;
}

TEST_F(FindHorovodModule, ErrorNamesTheFolder) {
  const auto found = find();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code, kExitLauncher);
  EXPECT_EQ(found.error().message, "--horovod: the module horovod is not in " +
                                       (share_ / "hvdrun/horovod").string() +
                                       "; build or install hvdrun again");
}

}  // namespace
}  // namespace hvdrun::cli
