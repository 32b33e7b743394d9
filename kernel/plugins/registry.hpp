// Every library and component the process knows, and who would provide what is absent. Filled on [control] at start and
// by a reload; after that reading is safe from any thread only while no load runs, so workers never read it: they hold
// instances.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/description.hpp"
#include "plugins/guard.hpp"
#include "plugins/settings.hpp"

namespace hive::plugins {

class instance;

// absent: described by NAME.plugin.json, and NAME.so is not beside it.
enum class library_state { loaded, refused, disabled, absent };
std::string_view to_string(library_state);

struct library {
  std::string name;                  // file name without .so; the name in configuration
  std::string file;                  // path, or "built in"
  std::string sha256;                // empty when never opened
  bool mapped = false;               // its code is in this process, for the rest of its life; also of one refused after that
  library_state state = library_state::disabled;
  std::string reason;                // why it is not loaded; one sentence
  bool trusted = false;
  bool told = false;                 // problems() says why it is not loaded
  plugin_description description;    // of a library not loaded: from NAME.plugin.json, else empty
};

// A component that can be used: its library is loaded and nothing of the same name came before.
struct component {
  const component_description *what = nullptr;
  const library *from = nullptr;
  uint32_t kind() const { return what->kind; }
  const std::string &id() const { return what->id; }
  const hive_component *table() const { return what->table; }
};

// A policy field and the gate that serves it.
struct gate_field {
  const field_description *field = nullptr;
  const component *gate = nullptr;
};

class component_registry {
 public:
  // Loads what the settings enable. A library that cannot be used is listed with its reason; the status is the first
  // such problem among those the operator named (enable, pins, dirs), for whoever wants to refuse to start.
  status load(const settings &);
  // All such problems of the last load.
  const std::vector<status> &problems() const { return problems_; }
  // One that is linked into the program (tests).
  status add(const hive_plugin *, std::string name);

  const std::vector<std::unique_ptr<library>> &libraries() const { return libraries_; }
  const component *find(uint32_t kind, std::string_view id) const;   // null when there is none
  const gate_field *field(std::string_view name) const;              // null when nobody serves it
  std::vector<std::string> ids(uint32_t kind) const;                 // sorted
  std::vector<std::string> fields() const;                           // sorted

  // Words for a name nobody provides: what exists, the nearest, and the library that would provide it.
  status missing(uint32_t kind, std::string_view id) const;
  status missing_field(std::string_view name) const;

  // Validates JSON text against the component's schema, fills the defaults and asks its `check`.
  result<std::string> configure(const component &, std::string_view json, std::string_view instance) const;
  // The operator's configuration of a component ("kind/id", else "id") over what the program hands to it; JSON object text.
  std::string configuration(const component &) const;

  // Live instances, for the admin API; they come and go on [control].
  void track(const instance &);
  void untrack(const instance &);
  // What the instances of each component have counted, those that are gone included. {kind, id}.
  std::map<std::pair<uint32_t, std::string>, call_stats::totals> totals() const;
  template <class F>
  void each_instance(F &&f) const {
    for (const instance *i : instances_) f(*i);
  }

 private:
  using key = std::pair<uint32_t, std::string>;
  void load_one(library &);
  void note_absent(const std::string &dir);
  status adopt(library &);
  status unknown(std::string_view what, std::string_view name, const std::vector<std::string> &known, const std::string &provider) const;

  settings settings_;
  std::vector<status> problems_;
  std::vector<std::unique_ptr<library>> libraries_;
  std::map<key, component> components_;
  std::map<std::string, gate_field, std::less<>> fields_;
  std::vector<const instance *> instances_;
  std::map<key, call_stats::totals> gone_;             // counted by instances that are untracked
};

}  // namespace hive::plugins
