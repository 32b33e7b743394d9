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
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")
if(HIVE_SANITIZE)
  add_compile_options(-fsanitize=${HIVE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HIVE_SANITIZE})
  if(HIVE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Fences are not modelled. Asio's stand beside its mutexes, so nothing is missed for want of them.
    add_compile_options(-Wno-tsan)
  endif()
endif()

if(HIVE_FUZZ)
  # Coverage for libFuzzer; each target of tests/fuzz links the engine itself.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# hive_room(NAME SOURCES... LINK...): one folder of kernel/ as a static library hive_<NAME>.
function(hive_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(hive_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(hive_${name} PUBLIC ${PROJECT_SOURCE_DIR}/kernel)
  target_link_libraries(hive_${name} PUBLIC hive_flags ${ROOM_LINK})
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
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${T_LABELS}" TIMEOUT 120)
endfunction()

if(HIVE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

include(${PROJECT_SOURCE_DIR}/sdk/cmake/HivePlugin.cmake)
