#include "commands/scale_devices.hpp"

#include <gmock/gmock.h>

namespace hvdrun::scale {
namespace {

using testing::HasSubstr;

std::string dry_run(const std::string& gpus, const std::string& provisional = "false") {
  return "hvdrun: note: something\n{\"hosts\": [{\"host\": \"n1\", \"gpu_source\": \"no NVIDIA "
         "driver\", "
         "\"provisional\": " +
         provisional + ", \"ranks\": [" + gpus + "]}]}\n";
}

TEST(VisibleDevices, AreTheGpusOfTheRanks) {
  const auto devices =
      visible_devices(dry_run(R"({"gpu": {"visible": "2"}}, {"gpu": {"visible": "GPU-5f"}})"));
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_EQ(*devices, "2,GPU-5f");
}

TEST(VisibleDevices, MustBeKnownAndOnOneHost) {
  EXPECT_THAT(visible_devices(dry_run(R"({"gpu": null})")).error().message,
              HasSubstr("found no GPUs on n1 (no NVIDIA driver)"));
  EXPECT_THAT(visible_devices(dry_run("", "true")).error().message, HasSubstr("one host"));
  EXPECT_THAT(visible_devices(R"({"hosts": []})").error().message, HasSubstr("one host"));
  for (const char* const text : {"", "{", "nothing", R"({"hosts": 3})"})
    EXPECT_THAT(visible_devices(text).error().message, HasSubstr("cannot be read")) << text;
}

}  // namespace
}  // namespace hvdrun::scale
