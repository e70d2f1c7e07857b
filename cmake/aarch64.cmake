# Compiles for 64-bit ARM on another machine with Debian's g++-aarch64-linux-gnu. HVD_AARCH64_ROOT has what
# scripts/aarch64_root puts there; without it the runtime alone can be built. Programs run in qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HVD_AARCH64_ROOT)

set(libraries ${HVD_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${HVD_AARCH64_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${HVD_AARCH64_ROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${libraries}/pkgconfig:${HVD_AARCH64_ROOT}/usr/share/pkgconfig")
if(HVD_AARCH64_ROOT)
  # Headers that differ between architectures (hwloc's autogen/config.h).
  set(CMAKE_C_FLAGS_INIT "-isystem ${HVD_AARCH64_ROOT}/usr/include/aarch64-linux-gnu")
  set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
  # Libraries that libraries need.
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}:${HVD_AARCH64_ROOT}/lib/aarch64-linux-gnu")
  set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${HVD_AARCH64_ROOT})
endif()
