# Settings every target of the project links to: hvd_settings (language, sanitizers) and
# hvd_warnings (warnings, errors where HVD_WERROR is on).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # programs find libhvd when the build folder is moved or copied

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(HVD_CCACHE ccache)
if(HVD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${HVD_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HVD_CCACHE})
endif()

add_library(hvd_settings INTERFACE)
target_compile_definitions(hvd_settings INTERFACE _GNU_SOURCE)
if(HVD_SANITIZE)
  target_compile_options(hvd_settings INTERFACE -fsanitize=${HVD_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(hvd_settings INTERFACE -fsanitize=${HVD_SANITIZE})
  if(HVD_SANITIZE MATCHES "undefined")
    target_compile_options(hvd_settings INTERFACE -fno-sanitize-recover=undefined)
  endif()
  # GCC's manual says of -fsanitize: "may result in false positives" of -Wmaybe-uninitialized. GCC 12 has them of the
  # others, on std::string, wherever it optimizes less than with -O2. These warnings are the release build's to give.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(hvd_no_false_alarms -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                            -Wno-free-nonheap-object -Wno-dangling-pointer)
  endif()
endif()

add_library(hvd_warnings INTERFACE)
target_compile_options(hvd_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wcast-align -Wunused -Wformat=2
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms on std::string in GCC 12 (PR 105329)
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  ${hvd_no_false_alarms}
  $<$<BOOL:${HVD_WERROR}>:-Werror>)

option(HVD_UNITY "Compile the sources of a folder together, a few at a time: half the time of a first build" ON)

# hvd_compile_together(TARGET MOST): compiles the target's C++ sources together, at most MOST of one folder in a unit.
# Leaves out those with options of their own. CMake's own UNITY_BUILD includes by absolute paths, which a compiler
# cache finds in no other checkout. The build with preset fast shows that each source includes what it needs.
function(hvd_compile_together target most)
  get_target_property(sources ${target} SOURCES)
  set(kept ${sources})
  set(folders "")
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(source MATCHES "^([a-z0-9_]+/)?[a-z0-9_]+\\.cpp$" AND NOT options AND NOT alone)
      get_filename_component(folder "${source}" DIRECTORY)
      set(folder ${target}_${folder})
      list(APPEND folders ${folder})
      list(APPEND ${folder}_sources ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(left ${${folder}_sources})
    list(REMOVE_ITEM kept ${left})
    list(LENGTH left count)
    math(EXPR units "(${count} + ${most} - 1) / ${most}")
    math(EXPR size "(${count} + ${units} - 1) / ${units}")
    set(unit 0)
    while(left)
      list(SUBLIST left 0 ${size} together)
      list(REMOVE_ITEM left ${together})
      math(EXPR unit "${unit} + 1")
      set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${folder}${unit}.cpp)
      list(TRANSFORM together REPLACE "(.+)" "#include \"\\1\"\n")
      list(JOIN together "" text)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
      list(APPEND kept ${file})
    endwhile()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${kept})
  target_include_directories(${target} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  # A class that a source keeps to itself may have members of types that it keeps to itself.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# hvd_add_module(NAME SOURCES... [DEPENDS target...]): a static library of one folder.
# Its headers are included by their path from the folder above the module ("cli/options.hpp").
function(hvd_add_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/..)
  target_link_libraries(${name} PUBLIC hvd_settings ${arg_DEPENDS} PRIVATE hvd_warnings ${arg_PRIVATE})
  if(HVD_UNITY)
    hvd_compile_together(${name} 10)
  endif()
endfunction()

# hvd_copy_to_build(NAME FROM TO pattern...): a target that copies files under FROM, a folder, to TO in the build folder.
# Programs look there for what they read, as where they are installed: what is built does not need the sources.
function(hvd_copy_to_build name from to)
  set(to_folder "${CMAKE_BINARY_DIR}/${to}")
  foreach(folder from to_folder)
    string(REGEX REPLACE "([][*?])" "[\\1]" escaped "${${folder}}")
    list(TRANSFORM ARGN PREPEND "${escaped}/" OUTPUT_VARIABLE patterns_${folder})
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns_from})
  file(GLOB_RECURSE others ${patterns_to_folder})  # copies of what has been removed since
  set(copies "")
  set(commands "")
  foreach(source IN LISTS sources)
    file(RELATIVE_PATH path "${from}" "${source}")
    list(APPEND copies "${to_folder}/${path}")
    list(APPEND commands COMMAND ${CMAKE_COMMAND} -E copy "${source}" "${to_folder}/${path}")
  endforeach()
  foreach(other IN LISTS others)
    if(NOT other IN_LIST copies)
      file(REMOVE "${other}")
    endif()
  endforeach()
  add_custom_command(OUTPUT ${copies} ${commands} DEPENDS ${sources} VERBATIM COMMENT "Copying to ${to}")
  add_custom_target(${name} ALL DEPENDS ${copies})
endfunction()
