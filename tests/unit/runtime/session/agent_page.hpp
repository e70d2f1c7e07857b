// A status page as an agent makes it, for tests of the rank's side.
#pragma once

#include "session/status_page.hpp"
#include "support.hpp"

#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>

namespace libhvd {

// Two pages; the second is the rank's.
class AgentPage {
 public:
  AgentPage() {
    std::ofstream(path()) << std::string(2 * HVD_STATUS_PAGE_SIZE, '\0');
    const Fd file(::open(path().c_str(), O_RDWR));
    void* address = ::mmap(nullptr, HVD_STATUS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                           file.get(), HVD_STATUS_PAGE_SIZE);
    mapping_ = Mapping(address, HVD_STATUS_PAGE_SIZE);
    page()->magic = HVD_STATUS_MAGIC;
    page()->version = HVD_STATUS_VERSION;
  }
  std::string path() const { return folder_.file("status"); }
  std::string place() const { return path() + "@" + std::to_string(HVD_STATUS_PAGE_SIZE); }
  hvd_status_page* page() { return reinterpret_cast<hvd_status_page*>(mapping_.data()); }
  Result<StatusPage> attach() {
    return StatusPage::attach(test::make_environment({{"HVD_STATUS", place()}}));
  }
  Result<StatusPage> attach_for_failure() {
    return StatusPage::attach_for_failure(test::make_environment({{"HVD_STATUS", place()}}));
  }

 private:
  test::TemporaryFolder folder_;
  Mapping mapping_;
};

}  // namespace libhvd
