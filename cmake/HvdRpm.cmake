# The packages that `cpack -G RPM` makes of a build: hvdrun, libhvd, libhvd-devel and python3-hvd, which are the components of
# install(). Examples and tests are in none. Build them on the system that they are for: its libraries become their dependencies.
set(CPACK_PACKAGE_NAME hvdrun)
set(CPACK_PACKAGE_VENDOR "hvdrun maintainers")
set(CPACK_PACKAGE_CONTACT "hvdrun maintainers <maintainers@hvdrun.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL hvdrun libhvd libhvd-devel python3-hvd)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
# Open MPI is opened at run time, by those who have it. No other package needs the plugin.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __requires_exclude ^libmpi
%global __provides_exclude ^libhvd_mpi
%global _build_id_links none
%global packager ${CPACK_PACKAGE_CONTACT}")
# Folders of the system, which belong to other packages.
foreach(folder man man/man1 bash-completion bash-completion/completions zsh zsh/site-functions fish fish/vendor_completions.d
               licenses)
  list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/${CMAKE_INSTALL_DATADIR}/${folder})
endforeach()
list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/${CMAKE_INSTALL_LIBDIR} /usr/${CMAKE_INSTALL_LIBDIR}/cmake
     /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# hvd_rpm(COMPONENT SUMMARY DESCRIPTION): describes a package, and puts the licence into it.
function(hvd_rpm component summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_RPM_${upper}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_RPM_${upper}_PACKAGE_SUMMARY ${summary} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION ${description} PARENT_SCOPE)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/${component}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

hvd_rpm(hvdrun "Launcher for distributed training"
"hvdrun starts a program once per GPU over the hosts of a job, on this
machine, over ssh or in a SLURM job, and stops it cleanly. Programs of
PyTorch, TensorFlow, Horovod and MPI find each other unchanged. When one
fails, the others end, and hvdrun prints which failed first.")
set(CPACK_RPM_HVDRUN_PACKAGE_SUGGESTS "elfutils-libs, openssh-clients, pmix, libssh, python3-hvd")

hvd_rpm(libhvd "Runtime for distributed training"
"libhvd has the collective operations of a distributed training, on host
memory and on GPUs, between the processes that hvdrun or another launcher
has started. CUDA, NCCL, PMIx and MPI are opened at run time if they are
there.")

hvd_rpm(libhvd-devel "Headers of the runtime for distributed training"
"The headers of libhvd for C and C++, and the files for CMake and pkg-config.")
set(CPACK_RPM_LIBHVD-DEVEL_PACKAGE_REQUIRES "libhvd = ${PROJECT_VERSION}")

hvd_rpm(python3-hvd "Distributed training with PyTorch and TensorFlow"
"The Python package hvd averages gradients, exchanges tensors, and reads and
saves data over the ranks of a job. Python finds it with
PYTHONPATH=/usr/${CMAKE_INSTALL_DATADIR}/hvd/python.")
set(CPACK_RPM_PYTHON3-HVD_PACKAGE_REQUIRES "libhvd = ${PROJECT_VERSION}, python3 >= 3.9")

include(CPack)
