# hive_add_plugin(NAME SOURCES... [LINK...] [CONFIG JSON] [BARE]): a plugin library NAME.so that exports its entry function
# and nothing else, binds all its symbols at load, and carries no unique symbols that would keep old code mapped. Beside it
# NAME.plugin.json says what it provides, read from the library itself, and a test check_NAME runs hive-plugin-check over
# it; CONFIG is the configuration that the check makes instances with. BARE leaves both out.
set(hive_plugin_cmake_dir ${CMAKE_CURRENT_LIST_DIR})

function(hive_add_plugin name)
  cmake_parse_arguments(P "BARE" "CONFIG" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${P_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(NOT HIVE_PLUGIN_OUTPUT_DIRECTORY)
    set(HIVE_PLUGIN_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HIVE_PLUGIN_OUTPUT_DIRECTORY})
  target_link_libraries(${name} PRIVATE hive_sdk ${P_LINK})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set(map ${hive_plugin_cmake_dir}/plugin.map)
  target_link_options(${name} PRIVATE -Wl,-z,now -Wl,--exclude-libs,ALL -Wl,--version-script=${map})
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${map})
  if(NOT HIVE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  # The loader refuses what others may write, whatever the umask of the build was.
  add_custom_command(TARGET ${name} POST_BUILD COMMAND chmod go-w ${HIVE_PLUGIN_OUTPUT_DIRECTORY} $<TARGET_FILE:${name}> VERBATIM)
  if(P_BARE)
    return()
  endif()

  set(checker hive-plugin-check)
  if(TARGET hive-plugin-check)
    add_dependencies(${name} hive-plugin-check)
    set(checker $<TARGET_FILE:hive-plugin-check>)
  else()
    find_program(HIVE_PLUGIN_CHECK hive-plugin-check REQUIRED)
    set(checker ${HIVE_PLUGIN_CHECK})
  endif()
  # A program under the thread sanitizer starts only with a fixed address space.
  set(fixed_addresses "")
  if(HIVE_SANITIZE MATCHES "thread")
    set(fixed_addresses setarch ${CMAKE_HOST_SYSTEM_PROCESSOR} -R)
  endif()
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${fixed_addresses} ${checker} --describe $<TARGET_FILE:${name}> --output ${HIVE_PLUGIN_OUTPUT_DIRECTORY}/${name}.plugin.json
    BYPRODUCTS ${HIVE_PLUGIN_OUTPUT_DIRECTORY}/${name}.plugin.json VERBATIM)
  if(HIVE_TESTS)
    set(config "")
    if(P_CONFIG)
      set(config --config ${P_CONFIG})
    endif()
    add_test(NAME check_${name} COMMAND ${checker} ${config} $<TARGET_FILE:${name}>)
    set_tests_properties(check_${name} PROPERTIES LABELS conformance TIMEOUT 240)
  endif()
endfunction()
