# The standard headers, and GoogleTest's, are compiled once instead of in every unit test; with HVD_PRECOMPILE
# the standard headers for the product's sources too. The release build's product does without: it shows that each
# file includes what it needs.
set(hvd_precompiled_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <filesystem> <fstream> <functional> <map>
  <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
  <unordered_map> <utility> <variant> <vector>)
set(hvd_precompiled_test_headers ${hvd_precompiled_headers} <gmock/gmock.h> <gtest/gtest.h>)

# hvd_precompile(): for the libraries and the unit tests with more than two sources, once all are known.
function(hvd_precompile)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
  if(HVD_PRECOMPILE)
    hvd_add_precompiled(hvd_precompiled "${hvd_precompiled_headers}" hvd_settings hvd_warnings)
  endif()
  if(HVD_BUILD_TESTS)
    hvd_add_precompiled(hvd_precompiled_tests "${hvd_precompiled_test_headers}" hvd_settings hvd_warnings GTest::gmock)
    # As CMake compiles the sources of programs.
    set_target_properties(hvd_precompiled_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF
                                                           COMPILE_OPTIONS "-fPIE;${HVD_TEST_OPTIONS}")
  endif()
  hvd_precompile_below(${CMAKE_SOURCE_DIR})
endfunction()

function(hvd_add_precompiled name headers)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

function(hvd_precompile_below folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    set(cpp_sources ${sources})
    list(FILTER cpp_sources INCLUDE REGEX "[.]cpp$")
    list(LENGTH cpp_sources count)
    if(target MATCHES "^hvd_precompiled" OR count LESS 3)
      continue()
    elseif(type MATCHES "^(STATIC|SHARED)_LIBRARY$" AND HVD_PRECOMPILE)
      target_precompile_headers(${target} REUSE_FROM hvd_precompiled)
    elseif(type STREQUAL "EXECUTABLE" AND libraries MATCHES "GTest::|runtime_test_support")
      target_precompile_headers(${target} REUSE_FROM hvd_precompiled_tests)
    else()
      continue()
    endif()
    # Sources in C and those with compiler options of their own cannot share it.
    foreach(source ${sources})
      get_source_file_property(options ${folder}/${source} DIRECTORY ${folder} COMPILE_OPTIONS)
      if(options OR source MATCHES "[.]c$")
        set_source_files_properties(${folder}/${source} DIRECTORY ${folder} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    hvd_precompile_below(${below})
  endforeach()
endfunction()
