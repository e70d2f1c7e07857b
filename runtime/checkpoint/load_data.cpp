#include "checkpoint/load_data.hpp"

#include "checkpoint/agreement.hpp"
#include "checkpoint/load_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace libhvd::checkpoint {
namespace {

// The file as this rank sees it; nothing when it sees none, or another one: in a container, say.
std::optional<CheckpointFile> open_same(const Found& found) {
  const std::size_t slash = found.path.rfind('/');
  const auto name = FileName::parse(found.path.substr(slash + 1));
  if (!name) return std::nullopt;
  auto file = CheckpointFile::open(found.path.substr(0, slash), *name);
  if (!file.ok() || encode_index(file->index()) != encode_index(found.index)) return std::nullopt;
  return std::move(*file);
}

Outcome read_all(const CheckpointFile& file, const BlockMap& map) {
  try {
    std::vector<std::byte> room;  // for blocks that do not lie in one part
    for (std::uint64_t block = 0; block < map.blocks(); ++block) {
      std::byte* const direct = map.direct(block);
      if (direct == nullptr) room.resize(map.length(block));
      HVD_CHECK(file.read_block(block, direct != nullptr ? direct : room.data()));
      if (direct == nullptr) map.scatter(block, room.data());
    }
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, exception.what());
  }
  return Done{};
}

}  // namespace

Result<std::optional<std::string>> load_data(Communicator& communicator, const Found& found,
                                             const CheckpointFile* file,
                                             const Destinations& destinations) {
  if (communicator.on_one_host()) {
    const std::optional<CheckpointFile> opened = file == nullptr ? open_same(found) : std::nullopt;
    const CheckpointFile* const own = opened ? &*opened : file;
    HVD_TRY(const bool all, true_everywhere(communicator, own != nullptr));
    if (all) {
      HVD_TRY(const auto failed,
              first_failure(communicator, read_all(*own, BlockMap(found.index, destinations))));
      return failed ? std::optional(failed->message) : std::nullopt;
    }
  }
  return stream_data(communicator, found.index, file, destinations);
}

}  // namespace libhvd::checkpoint
