#include "gpus/nvidia/visible_gpus.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

NvmlGpu gpu(const std::string& uuid, const std::string& pci, const std::string& name) {
  NvmlGpu made;
  made.uuid = uuid;
  made.pci_address = pci;
  made.name = name;
  made.memory_bytes = 80;
  return made;
}

NvmlScan same_model() {
  NvmlScan scan;
  scan.loaded = true;
  scan.gpus = {gpu("GPU-aa11", "0000:17:00.0", "H200"), gpu("GPU-ab22", "0000:2a:00.0", "H200"),
               gpu("GPU-cc33", "0000:3d:00.0", "H200")};
  return scan;
}

NvmlScan mixed_models() {
  NvmlScan scan = same_model();
  scan.gpus[1].name = "L40S";
  return scan;
}

NvmlScan with_mig() {
  NvmlScan scan = same_model();
  scan.gpus.resize(2);
  scan.gpus[0].mig_enabled = true;
  scan.gpus[0].mig_devices = {{"MIG-1", "H200 MIG 3g.71gb", 40}, {"MIG-2", "H200 MIG 3g.71gb", 40}};
  return scan;
}

NvmlScan no_driver() {
  NvmlScan scan;
  scan.problem = "no NVIDIA driver";
  return scan;
}

// Returns "visible=pci" of each GPU, with "?" if NVML does not describe it.
std::string brief(const GpuList& list) {
  std::string text;
  for (const auto& gpu : list.gpus)
    text += (text.empty() ? "" : " ") + gpu.visible + "=" +
            (gpu.pci_address.empty() ? "?" : gpu.pci_address.substr(5, 2));
  return text;
}

struct VisibleCase {
  const char* value;
  const char* expected;
  bool note = false;
};

TEST(VisibleGpus, VariableSelectsAndNvmlDescribes) {
  const VisibleCase cases[] = {
      {"0,1,2", "0=17 1=2a 2=3d"},
      {"2,0", "2=3d 0=17"},
      {" 1 , 0 ", "1=2a 0=17"},
      {"", ""},
      {"-1", ""},
      {"NoDevFiles", ""},
      {",0", ""},
      {"0,2,-1,1", "0=17 2=3d"},
      {"0,9,1", "0=17", true},
      {"9", "", true},
      {"0,banana", "0=17", true},
      {"banana", "", true},
      {"1,1", "", true},
      {"GPU-cc33,GPU-aa11", "GPU-cc33=3d GPU-aa11=17"},
      {"GPU-ab,GPU-c", "GPU-ab=2a GPU-c=3d"},
      {"GPU-a", "", true},
      {"GPU-c,GPU-cc33", "", true},
      {"GPU-zz", "", true},
      {"0,GPU-cc33", "0=17", true},
      {"GPU-cc33,0", "GPU-cc33=3d", true},
      {"MIG-GPU-ab22/1/0", "MIG-GPU-ab22/1/0=2a"},
      {"MIG-GPU-zz/1/0", "", true},
  };
  for (const auto& [value, expected, note] : cases) {
    const GpuList list = visible_gpus(value, false, same_model());
    EXPECT_EQ(brief(list), expected) << value;
    EXPECT_EQ(!list.notes.empty(), note) << value;
    EXPECT_FALSE(list.needs_list) << value;
    EXPECT_EQ(list.source, std::string("CUDA_VISIBLE_DEVICES=") + value);
  }
}

TEST(VisibleGpus, NotesExplainWhatCudaDoes) {
  EXPECT_EQ(visible_gpus("0,9,1", false, same_model()).notes[0],
            "CUDA_VISIBLE_DEVICES=0,9,1: \"9\" names no GPU here, and CUDA stops at it");
  EXPECT_EQ(
      visible_gpus("1,1", false, same_model()).notes[0],
      "CUDA_VISIBLE_DEVICES=1,1: \"1\" names a GPU for the second time, and CUDA then sees none");
}

TEST(VisibleGpus, VariableIsTrustedWithoutADriver) {
  EXPECT_EQ(brief(visible_gpus("0,7", false, no_driver())), "0=? 7=?");
  EXPECT_EQ(brief(visible_gpus("GPU-1,GPU-2", false, no_driver())), "GPU-1=? GPU-2=?");
  EXPECT_EQ(brief(visible_gpus("MIG-1", false, no_driver())), "MIG-1=?");
  EXPECT_EQ(brief(visible_gpus("3,3", false, no_driver())), "");
}

TEST(VisibleGpus, OrdinalsOfMixedModelsAreMatchedOnlyInPciOrder) {
  EXPECT_EQ(brief(visible_gpus("1,0", false, mixed_models())), "1=? 0=?");
  EXPECT_EQ(brief(visible_gpus("1,0", true, mixed_models())), "1=2a 0=17");
  EXPECT_EQ(brief(visible_gpus("GPU-ab22", false, mixed_models())), "GPU-ab22=2a");
}

TEST(VisibleGpus, NvmlListsAllWhenTheVariableIsUnset) {
  const GpuList list = visible_gpus(std::nullopt, false, same_model());
  EXPECT_EQ(brief(list), "0=17 1=2a 2=3d");
  EXPECT_FALSE(list.needs_list);
  EXPECT_EQ(list.source, "NVML");
  EXPECT_EQ(list.gpus[1].uuid, "GPU-ab22");
  EXPECT_EQ(list.gpus[1].memory_bytes, 80u);
}

TEST(VisibleGpus, MixedModelsNeedAListUnlessThePciOrderIsSet) {
  const GpuList list = visible_gpus(std::nullopt, false, mixed_models());
  EXPECT_EQ(brief(list), "0=17 1=2a 2=3d") << "numbers, which programs may read";
  EXPECT_TRUE(list.needs_list);
  const GpuList other = visible_gpus(std::nullopt, false, mixed_models(), true);
  EXPECT_EQ(brief(other), "GPU-aa11=17 GPU-ab22=2a GPU-cc33=3d") << "the user chose an order";
  const GpuList ordered = visible_gpus(std::nullopt, true, mixed_models());
  EXPECT_EQ(brief(ordered), "0=17 1=2a 2=3d");
  EXPECT_FALSE(ordered.needs_list);
}

TEST(VisibleGpus, ALostGpuIsNamed) {
  auto scan = same_model();
  scan.lost = {1};
  for (const auto& value : {std::optional<std::string>(), std::optional<std::string>("0")}) {
    const GpuList list = visible_gpus(value, false, scan);
    ASSERT_EQ(list.notes.size(), 1u);
    EXPECT_TRUE(list.notes[0].starts_with("GPU 1 of NVML is lost, so no rank uses it"));
  }
}

TEST(VisibleGpus, MigDevicesReplaceTheirGpu) {
  const GpuList list = visible_gpus(std::nullopt, false, with_mig());
  EXPECT_EQ(brief(list), "MIG-1=17 MIG-2=17 GPU-ab22=2a");
  EXPECT_EQ(list.gpus[0].name, "H200 MIG 3g.71gb");
  EXPECT_EQ(list.gpus[0].memory_bytes, 40u);
  EXPECT_EQ(brief(visible_gpus("MIG-2", false, with_mig())), "MIG-2=17");
  EXPECT_EQ(brief(visible_gpus("0,5", false, with_mig())), "0=? 5=?");

  NvmlScan empty = with_mig();
  empty.gpus[0].mig_devices.clear();
  const GpuList without = visible_gpus(std::nullopt, false, empty);
  EXPECT_EQ(brief(without), "GPU-ab22=2a");
  EXPECT_EQ(without.notes.size(), 1u);
}

TEST(VisibleGpus, EachRankSeesOneMigDeviceWhichHasItsOwnNameForNvml) {
  const GpuList list = visible_gpus("MIG-2,MIG-GPU-aa11/1/0", false, with_mig());
  EXPECT_EQ(list.single_because, "CUDA shows a process one MIG device");
  ASSERT_EQ(list.gpus.size(), 2u);
  EXPECT_EQ(watched_name(list.gpus[0]), "MIG-2");
  EXPECT_EQ(list.gpus[1].uuid, "GPU-aa11");
  EXPECT_EQ(watched_name(list.gpus[1]), "MIG-GPU-aa11/1/0");
  const GpuList unknown = visible_gpus("MIG-1", false, no_driver());
  EXPECT_EQ(watched_name(unknown.gpus.at(0)), "MIG-1");
  EXPECT_FALSE(unknown.has_driver);

  const GpuList whole = visible_gpus(std::nullopt, false, same_model());
  EXPECT_EQ(whole.single_because, "");
  EXPECT_EQ(watched_name(whole.gpus.at(0)), "GPU-aa11");
  EXPECT_TRUE(whole.has_driver);
}

TEST(VisibleGpus, NoneWithoutVariableAndDriver) {
  const GpuList list = visible_gpus(std::nullopt, false, no_driver());
  EXPECT_TRUE(list.gpus.empty());
  EXPECT_EQ(list.source, "no NVIDIA driver");
  EXPECT_TRUE(list.notes.empty());

  NvmlScan broken = no_driver();
  broken.broken = true;
  EXPECT_EQ(visible_gpus(std::nullopt, false, broken).notes.size(), 1u);
}

TEST(NamesDevices, IsFalseIfTheVariableNamesNoDevice) {
  for (const char* value : {"", "-1", "NoDevFiles", ",0"})
    EXPECT_FALSE(names_devices(value)) << value;
  for (const char* value : {"0", "GPU-a", "MIG-a"}) EXPECT_TRUE(names_devices(value)) << value;
  EXPECT_TRUE(names_devices(std::nullopt));
}

}  // namespace
}  // namespace hvdrun
