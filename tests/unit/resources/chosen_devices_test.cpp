// Tests what CUDA_VISIBLE_DEVICES and its kind mean on the hosts of a job.
#include "resources/chosen_devices.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto* kCuda = "CUDA_VISIBLE_DEVICES";

// The environment of a batch script of a job that has these GPUs on this host.
Environment job(const std::string& gpus, Environment more = {}) {
  more.insert({{"SLURM_JOB_ID", "7"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_JOB_GPUS", gpus}});
  return more;
}

struct Meaning {
  std::string here;       // CUDA_VISIBLE_DEVICES on this host
  std::string elsewhere;  // the choice for other hosts; "-": none
  std::size_t notes = 0;
  bool operator==(const Meaning&) const = default;
};

void PrintTo(const Meaning& meaning, std::ostream* out) {
  *out << "{" << meaning.here << " | " << meaning.elsewhere << " | " << meaning.notes << "}";
}

Meaning meaning_of(Environment environment) {
  const auto chosen = choose_devices(environment);
  Meaning meaning{"unset", "-", chosen.notes.size() + chosen.notes_elsewhere.size()};
  if (const auto* value = find_variable(environment, kCuda)) meaning.here = *value;
  for (const auto& choice : chosen.elsewhere)
    if (choice.name == kCuda) meaning.elsewhere = choice.value;
  return meaning;
}

TEST(ChosenDevices, AreNotWhatSlurmHasSet) {
  EXPECT_EQ(meaning_of(job("0,1,2,3", {{kCuda, "0,1,2,3"}})), (Meaning{"0,1,2,3", "-"}));
  EXPECT_EQ(meaning_of(job("0-3", {{kCuda, "0,1,2,3"}})), (Meaning{"0,1,2,3", "-"}));
  EXPECT_EQ(meaning_of(job("2,3", {{kCuda, "2,3"}})), (Meaning{"2,3", "-"})) << "not confined";
  EXPECT_EQ(meaning_of(job("2,3", {{kCuda, "0,1"}})), (Meaning{"0,1", "-"})) << "confined";
  EXPECT_EQ(meaning_of(job("0,1", {{kCuda, "GPU-a,GPU-b"}})), (Meaning{"GPU-a,GPU-b", "-"}));
  EXPECT_EQ(meaning_of({{"SLURM_JOB_ID", "7"}, {kCuda, "NoDevFiles"}}),
            (Meaning{"NoDevFiles", "-"}));
}

TEST(ChosenDevices, CountAmongThoseThatSlurmGave) {
  EXPECT_EQ(meaning_of(job("0,1,2,3", {{kCuda, "0,1"}})), (Meaning{"0,1", "0,1"}));
  EXPECT_EQ(meaning_of(job("0,1,2,3", {{kCuda, "3, 2"}})), (Meaning{"3,2", "3,2"}));
  EXPECT_EQ(meaning_of(job("0,1,2,3", {{kCuda, "2,5"}})), (Meaning{"2", "2,5", 1})) << "cut";
  EXPECT_EQ(meaning_of(job("0,1", {{kCuda, ""}})), (Meaning{"", ""}));
  EXPECT_EQ(meaning_of(job("0,1", {{kCuda, "-1"}})), (Meaning{"-1", "-1"}));
}

TEST(ChosenDevices, OfAHostThatIsSharedAreThoseOfTheJob) {
  const auto not_confined = [](const char* value) {
    return job("2,3,6,7", {{kCuda, value}, {"ROCR_VISIBLE_DEVICES", "2,3,6,7"}});
  };
  EXPECT_EQ(meaning_of(not_confined("0,1")), (Meaning{"2,3", "0,1", 1}));
  EXPECT_EQ(meaning_of(not_confined("6")), (Meaning{"6", "2"})) << "a part of SLURM's value";
  EXPECT_EQ(meaning_of(not_confined("0,1,2,3")), (Meaning{"2,3,6,7", "0,1,2,3", 1}));
  const auto confined = job("2,3,6,7", {{kCuda, "2,3"}, {"ROCR_VISIBLE_DEVICES", "0,1,2,3"}});
  EXPECT_EQ(meaning_of(confined), (Meaning{"2,3", "2,3"}));
}

TEST(ChosenDevices, AreSlurmsAgainIfTheUserHasUnsetTheVariable) {
  EXPECT_EQ(meaning_of(job("0,1")), (Meaning{"0,1", "-"}));
  EXPECT_EQ(meaning_of(job("2,3", {{"ROCR_VISIBLE_DEVICES", "2,3"}, {"ZE_AFFINITY_MASK", "2,3"}})),
            (Meaning{"2,3", "-"}));
  EXPECT_EQ(meaning_of(job("2,3", {{"ROCR_VISIBLE_DEVICES", "2,3"}})), (Meaning{"unset", "-"}))
      << "SLURM has found AMD's GPUs";
  EXPECT_EQ(meaning_of(job("2,3")), (Meaning{"unset", "-", 1})) << "how they are numbered is open";
}

TEST(ChosenDevices, KeepNamesOfDevicesOnTheirHost) {
  EXPECT_EQ(meaning_of({{kCuda, "GPU-a"}}), (Meaning{"GPU-a", "-", 1}));
  EXPECT_EQ(meaning_of(job("0,1", {{kCuda, "GPU-a"}})), (Meaning{"GPU-a", "-", 1}));
}

TEST(ChosenDevices, AreCarriedWhateverTheVariable) {
  for (const auto* name :
       {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR", "ASCEND_RT_VISIBLE_DEVICES",
        "MUSA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "HABANA_VISIBLE_MODULES",
        "XPU_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"}) {
    Environment environment{{name, "0,1"}};
    EXPECT_THAT(choose_devices(environment).elsewhere, ElementsAre(DeviceChoice{name, "0,1"}));
  }
  EXPECT_FALSE(is_device_variable("CUDA_DEVICE_ORDER"));
  // From salloc on a login host.
  Environment environment{{"SLURM_JOB_ID", "7"}, {kCuda, "0,1"}};
  EXPECT_THAT(choose_devices(environment).elsewhere, ElementsAre(DeviceChoice{kCuda, "0,1", true}));
}

// Returns what an agent with this value of its own has afterwards.
std::string applied(const DeviceChoice& choice, const std::optional<std::string>& own,
                    std::vector<std::string>* notes = nullptr) {
  Environment environment;
  if (own) environment[choice.name] = *own;
  auto said = apply_choices({choice}, environment);
  if (notes != nullptr)
    *notes = std::move(said);
  else
    EXPECT_THAT(said, IsEmpty());
  return environment.at(choice.name);
}

TEST(ChosenDevices, OfAnotherHostAreCutToWhatItHas) {
  const DeviceChoice counted{kCuda, "0,1", true};
  EXPECT_EQ(applied(counted, {}), "0,1");
  EXPECT_EQ(applied(counted, "0,1,2,3"), "0,1");
  EXPECT_EQ(applied(counted, "4,5,6"), "4,5");
  EXPECT_EQ(applied(counted, "GPU-a,GPU-b,GPU-c"), "GPU-a,GPU-b");
  EXPECT_EQ(applied({kCuda, "", true}, "0,1"), "");
  EXPECT_EQ(applied({kCuda, "-1", true}, "0,1"), "-1");
  EXPECT_EQ(applied({"ZE_AFFINITY_MASK", "1.0", true}, "2,3"), "3.0");
  EXPECT_EQ(applied({kCuda, "2,3"}, "2,3"), "2,3") << "a login's own value";
  EXPECT_EQ(applied({"NVIDIA_VISIBLE_DEVICES", "0"}, "all"), "0");
  std::vector<std::string> notes;
  EXPECT_EQ(applied({kCuda, "2,3", true}, "0,1,2", &notes), "2");
  EXPECT_THAT(notes,
              ElementsAre("CUDA_VISIBLE_DEVICES=2,3 is cut to 2: this host was given 0,1,2"));
  EXPECT_EQ(applied({kCuda, "0"}, "NoDevFiles", &notes), "");
  EXPECT_THAT(notes, ElementsAre(HasSubstr("is cut to none: this host was given NoDevFiles")));
}

TEST(ChosenDevices, AreCountedBeforeAHostIsAsked) {
  EXPECT_EQ(count_chosen_gpus({}, 4), 4);
  EXPECT_EQ(count_chosen_gpus({{"HIP_VISIBLE_DEVICES", "0"}}, 4), 4);
  EXPECT_EQ(count_chosen_gpus({{kCuda, "0,1", true}}, 4), 2);
  EXPECT_EQ(count_chosen_gpus({{kCuda, "2,3", true}}, 3), 1);
  EXPECT_EQ(count_chosen_gpus({{kCuda, "", true}}, 4), 0);
}

}  // namespace
}  // namespace hvdrun
