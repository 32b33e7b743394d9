# Compiler settings and the few functions that every folder uses.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json program_options)

add_library(hive_flags INTERFACE)
set(hive_werror -Werror)
if(HIVE_FUZZ)
  set(hive_werror "")  # g++ is the judge of warnings; clang only fuzzes
endif()
target_compile_options(hive_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor ${hive_werror} -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # It sees overruns in the standard library's own string moves (GCC bug 105651), which are silent only as long as they stand
  # in a system header that was not precompiled. The sanitizer builds judge bounds.
  target_compile_options(hive_flags INTERFACE -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow -Wno-restrict)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")
if(HIVE_FUZZ)
  # clang inlines nothing at -O1, and a target runs millions of times.
  set(CMAKE_CXX_FLAGS_DEBUG "-O2 -g1")
  set(CMAKE_C_FLAGS_DEBUG "-O2 -g1")
endif()
if(HIVE_SANITIZE)
  add_compile_options(-fsanitize=${HIVE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HIVE_SANITIZE})
  if(HIVE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Fences are not modelled. Asio's stand beside its mutexes, so nothing is missed for want of them.
    add_compile_options(-Wno-tsan)
  endif()
endif()

if(HIVE_FUZZ)
  # Coverage for libFuzzer; each target of tests/fuzz links the engine itself. The list is named by its content, for neither Ninja
  # nor ccache looks into it.
  set(unmeasured ${PROJECT_SOURCE_DIR}/tests/fuzz/unmeasured.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unmeasured})
  file(SHA1 ${unmeasured} content)
  configure_file(${unmeasured} ${CMAKE_BINARY_DIR}/unmeasured-${content}.txt COPYONLY)
  add_compile_options(-fsanitize=fuzzer-no-link -fsanitize-coverage-ignorelist=${CMAKE_BINARY_DIR}/unmeasured-${content}.txt)
endif()

# What most files include, parsed once: for the rooms, and with GoogleTest for the tests. Tests are compiled without optimisation,
# which is a third of their time; what they test is not. The presets also compile the files of a target eight at a time
# (CMAKE_UNITY_BUILD), so names in the unnamed namespaces of a folder differ. The fuzz build goes without both and so shows an
# include that is missing.
function(hive_precompiled name)
  cmake_parse_arguments(P "" "" "HEADERS;LINK" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE hive_flags hive_asio Boost::json ${P_LINK})
  target_compile_options(${name} PRIVATE -fpch-preprocess)
  target_precompile_headers(${name} PRIVATE ${P_HEADERS})
endfunction()

function(hive_reuse_precompiled target name)
  if(NOT HIVE_FUZZ)
    target_link_libraries(${target} PRIVATE hive_asio Boost::json)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# hive_room(NAME SOURCES... LINK...): one folder of kernel/ as a static library hive_<NAME>.
function(hive_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(hive_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(hive_${name} PUBLIC ${PROJECT_SOURCE_DIR}/kernel)
  target_link_libraries(hive_${name} PUBLIC hive_flags ${ROOM_LINK})
  hive_reuse_precompiled(hive_${name} hive_pch)
endfunction()

# hive_test(NAME SOURCES... LINK... [LABELS...]): a GoogleTest program; every test case becomes a ctest.
function(hive_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT HIVE_TESTS)
    return()
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE hive_flags ${T_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${hive_test_options})
  hive_reuse_precompiled(${name} hive_pch_test)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${T_LABELS}" TIMEOUT 120)
endfunction()

if(HIVE_TESTS)
  find_package(GTest REQUIRED)
  set(hive_test_options -O0)
  include(GoogleTest)
endif()

if(NOT HIVE_FUZZ)
  set(hive_common_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstring> <deque> <functional> <map>
    <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <vector>
    <boost/json.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp> <boost/asio/steady_timer.hpp>)
  hive_precompiled(hive_pch HEADERS ${hive_common_headers})
  if(HIVE_TESTS)
    hive_precompiled(hive_pch_test HEADERS ${hive_common_headers} <gmock/gmock.h> <gtest/gtest.h> LINK GTest::gtest GTest::gmock)
    target_compile_options(hive_pch_test PRIVATE ${hive_test_options})
  endif()
endif()

include(${PROJECT_SOURCE_DIR}/sdk/cmake/HivePlugin.cmake)
