// The one table of settings of a program. Flags, environment variables, the YAML file, --help, the reference page and
// --print-config all come from it. Built and used on one thread, at start.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "config/address.hpp"
#include "config/yaml.hpp"

namespace hive::config {

// Rising precedence.
enum class origin : uint8_t { built_in, file, environment, flag };

struct duration { uint64_t ns = 0; };
struct byte_count { uint64_t bytes = 0; };

// Where a value goes; the pointee's type is the setting's type. It outlives the table.
using target = std::variant<std::string *, int64_t *, bool *, duration *, byte_count *, address *, std::vector<std::string> *>;
using environment = std::map<std::string, std::string, std::less<>>;

class setting {
 public:
  // Ranges are inclusive: of the number, of bytes, or of a duration in ns.
  setting &range(uint64_t least, uint64_t most);
  setting &choices(std::vector<std::string> names);
  setting &check(std::function<status(const std::string &)> one_value);  // of text and of each list item
  setting &shown_as(std::string placeholder);   // in help, instead of the type's name
  setting &also_env(std::string name);          // read when the first variable is not set
  setting &alias(std::string flag);             // accepted and warned about
  setting &also_flag(std::string flag);         // another name, as good as the first
  setting &no_env();
  setting &no_flag();
  setting &no_file();
  setting &at_key(std::string path);            // instead of the name with - as _
  setting &repeatable();                        // a flag given twice adds; else a list flag is comma separated
  setting &secret();                            // masked wherever it is shown
  setting &unused(std::string why);             // accepted, warned about, not used

  std::string name, built_in, help, section, key, placeholder, unused_why;
  std::vector<std::string> env, aliases, other_flags, allowed;
  target where;
  uint64_t min = 0, max = INT64_MAX;
  bool has_range = false, has_flag = true, is_repeatable = false, is_secret = false;
  origin from = origin::built_in;
  std::string source;                           // "--queue-size", "HIVENET_ROUTER_QUEUE_SIZE", "router.yaml:3"
  std::function<status(const std::string &)> checks;
};

class table {
 public:
  table(std::string program, std::string env_prefix) : program_(std::move(program)), prefix_(std::move(env_prefix)) {}
  table(const table &) = delete;
  table &operator=(const table &) = delete;

  void section(std::string title) { section_ = std::move(title); }
  setting &add(std::string name, target where, std::string built_in, std::string help);
  const setting *find(std::string_view name) const;   // by name, not alias
  origin origin_of(std::string_view name) const;      // built_in if there is no such setting
  const std::deque<setting> &rows() const { return rows_; }
  const std::string &program() const { return program_; }
  const std::string &prefix() const { return prefix_; }

  // Each step puts its values over those of the step before; problems are added to `problems` and the rest goes on.
  void apply_built_in();
  void forget();  // every origin is built-in again; the targets are the caller's to reset
  void apply_file(const yaml::node &root, const std::vector<std::string> &other_keys, std::vector<status> &problems);
  void apply_environment(const environment &, std::vector<status> &problems, std::vector<std::string> &warnings);
  // Stops at the first argument that is no flag (or after --) and answers what is left.
  std::vector<std::string> apply_flags(const std::vector<std::string> &arguments, std::vector<status> &problems,
                                       std::vector<std::string> &warnings);

  std::string value_text(const setting &) const;      // as YAML; secrets masked
  std::string resolved() const;                       // --print-config; rows inside a map (plugins.dirs) come last
  std::string help() const;
  std::string markdown() const;                       // the reference page
  std::string limits() const;                         // a table of what bounds something: counts, bytes, durations

 private:
  status put(setting &, const std::vector<std::string> &values, origin, std::string source);
  setting *by_flag(std::string_view flag);

  std::string program_, prefix_, section_;
  std::deque<setting> rows_;
};

// The type's name for help and docs: "duration", "on|off" choices and the like.
std::string type_name(const setting &);

}  // namespace hive::config
