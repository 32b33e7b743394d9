# The waiting line on its own, so that it builds and tests without the rest of the room.
add_library(hive_routing_queue STATIC ${CMAKE_CURRENT_LIST_DIR}/queue.cpp)
target_include_directories(hive_routing_queue PUBLIC ${PROJECT_SOURCE_DIR}/kernel)
target_link_libraries(hive_routing_queue PUBLIC hive_flags hive_fleet)

hive_test(routing_queue_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/queue_test.cpp ${CMAKE_CURRENT_LIST_DIR}/queue_model_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/queue_signal_test.cpp ${CMAKE_CURRENT_LIST_DIR}/queue_ticket_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/queue_speed_test.cpp ${CMAKE_CURRENT_LIST_DIR}/queue_stress_test.cpp
  LINK hive_routing_queue)
