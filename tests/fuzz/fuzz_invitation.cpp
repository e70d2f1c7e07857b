// What comes over srun's stdin and, once TLS stands, from whoever has the key: any bytes.
#include "expect.hpp"
#include "remote/invitation.hpp"

#include <cstdint>

using namespace hvdrun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(is_whole_invitation(text));
  if (const auto invitation = parse_invitation(text)) {
    const auto again = parse_invitation(pack_invitation(*invitation));
    FUZZ_EXPECT(again && again->key.secret == invitation->key.secret &&
                again->addresses.size() == invitation->addresses.size());
  }
  if (const auto introduction = parse_introduction(text); introduction && *introduction) {
    const auto again = parse_introduction(pack_introduction(**introduction));
    FUZZ_EXPECT(again && *again && (*again)->host == (*introduction)->host);
  }
  return 0;
}
