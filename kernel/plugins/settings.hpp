// What an operator says about plugins, as the config room fills it in. Plain data.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hive::plugins {

struct settings {
  // Folders of our own package: their files need no probe. Searched first; of two files of one name the first wins.
  std::vector<std::string> trusted_dirs;
  std::vector<std::string> dirs;
  // Names of libraries (file name without .so). Nothing else loads, but for what stands in trusted_dirs if
  // enable_trusted is set.
  std::vector<std::string> enable;
  bool enable_trusted = true;
  std::vector<std::string> disable;                      // wins over both
  std::map<std::string, std::string> pins;               // library name -> sha256, 64 hex digits, "sha256:" allowed in front
  // "kind/id" or "id" -> its configuration, JSON text. A strategy's and a custom gate's come from policies instead.
  std::map<std::string, std::string> configuration;
  // Where a block of `configuration` stands, for messages: "router.yaml:12: plugins.config.gate.srtt". Absent = its key.
  std::map<std::string, std::string> places;
  // What the program itself hands to a component, below the operator's block: "kind/id" -> JSON object text.
  std::map<std::string, std::string> program_values;
  // The program that describes a library in a child process; empty = hive-plugin-check beside our own program.
  std::string probe_program;
  std::chrono::milliseconds probe_timeout{5000};         // wall and CPU time of one probe
  uint64_t probe_memory = uint64_t{512} << 20;           // bytes of address space
};

}  // namespace hive::plugins
