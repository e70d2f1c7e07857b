#include "gpu/copy_kernel.hpp"

#include <algorithm>

namespace libhvd {

Result<CopyKernel> CopyKernel::find(const KernelModule& module) {
  HVD_TRY(void* const kernel, module.find("hvd_copy_batch"));
  return CopyKernel(module, kernel);
}

Result<void> CopyKernel::run(std::span<const DeviceCopy> copies, CudaStream stream) const {
  while (!copies.empty()) {
    CopyBatch batch{};
    std::size_t longest = 0;
    for (const DeviceCopy& copy : copies.first(std::min<std::size_t>(copies.size(), kMostCopies))) {
      batch.copies[batch.count++] = copy;
      longest = std::max(longest, copy.bytes);
    }
    const auto blocks =
        static_cast<unsigned>((longest + kCopyBytesPerBlock - 1) / kCopyBytesPerBlock);
    void* parameters[] = {&batch};
    if (blocks > 0)
      HVD_CHECK(module_->launch(
          kernel_, {.x = blocks, .y = static_cast<unsigned>(batch.count), .threads = kCopyThreads},
          stream, parameters));
    copies = copies.subspan(static_cast<std::size_t>(batch.count));
  }
  return {};
}

}  // namespace libhvd
