# hive_add_plugin(NAME SOURCES... [LINK...]): a plugin library NAME.so that exports its entry function and nothing else,
# binds all its symbols at load, and carries no unique symbols that would keep old code mapped.
function(hive_add_plugin name)
  cmake_parse_arguments(P "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${P_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(NOT HIVE_PLUGIN_OUTPUT_DIRECTORY)
    set(HIVE_PLUGIN_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HIVE_PLUGIN_OUTPUT_DIRECTORY})
  target_link_libraries(${name} PRIVATE hive_sdk ${P_LINK})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)
  target_link_options(${name} PRIVATE -Wl,-z,now -Wl,--exclude-libs,ALL -Wl,--version-script=${map})
  if(NOT HIVE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
