// Further names of models, from the router's file:
//
//   model_aliases:
//     gpt-4o: llama3-70b          # a request for gpt-4o is served by llama3-70b
//     fast: gpt-4o                # an alias of an alias is one of the model
//
// An alias wins over a model of the same name. Start of a program, or whoever reads the file again; one thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/yaml.hpp"

namespace hive::config {

struct model_alias {
  std::string alias;
  std::string model;  // no alias itself
};

// The block of the file, sorted by alias. Refused, each with its line: what is no name of 1 to 256 bytes without control
// characters, and an alias that leads in a circle. Two of one name are refused by the parser.
void read_model_aliases(const yaml::node &block, std::vector<model_alias> &out, std::vector<status> &problems);
// The same of a whole file, whose other keys are not looked at. No file, no aliases.
result<std::vector<model_alias>> read_model_aliases(const std::string &file);
std::string show_model_aliases(const std::vector<model_alias> &);

}  // namespace hive::config
