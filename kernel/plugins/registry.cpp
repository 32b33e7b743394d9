#include "plugins/registry.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/text.hpp"
#include "plugins/error_words.hpp"
#include "plugins/instance.hpp"
#include "plugins/library.hpp"

namespace hive::plugins {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string> &list, const std::string &name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// NAME.plugin.json beside NAME.so, written when the library was built. A hint only: nothing runs because of it.
plugin_description hint(const fs::path &so) {
  fs::path file = so;
  file.replace_extension(".plugin.json");
  std::error_code ec;
  if (const auto size = fs::file_size(file, ec); ec || size > (1u << 20)) return {};
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto d = description_from_json(text);
  return d ? std::move(*d) : plugin_description();
}

std::vector<fs::path> libraries_in(const std::string &dir) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
    if (it->path().extension() == ".so") out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string list_of(const std::vector<std::string> &names) {
  std::string out;
  for (const auto &n : names) out += (out.empty() ? "" : ", ") + n;
  return out.empty() ? "none" : out;
}

}  // namespace

std::string_view to_string(library_state s) {
  switch (s) {
    case library_state::loaded: return "loaded";
    case library_state::refused: return "refused";
    case library_state::disabled: return "disabled";
    case library_state::absent: return "absent";
  }
  return "unknown";
}

status component_registry::load(const settings &s) {
  settings_ = s;
  std::set<std::string> seen;
  for (const auto &l : libraries_) seen.insert(l->name);
  problems_.clear();
  const auto note = [&](status st) {
    if (!st.ok()) problems_.push_back(std::move(st));
  };
  const auto search = [&](const std::vector<std::string> &dirs, bool trusted, const std::string &setting) {
    for (size_t i = 0; i < dirs.size(); ++i) {
      std::error_code ec;
      if (!fs::is_directory(dirs[i], ec)) {
        note(fail(errc::not_found, "there is no folder " + dirs[i], setting + "[" + std::to_string(i) + "]"));
        continue;
      }
      for (const auto &path : libraries_in(dirs[i])) {
        const std::string name = path.stem().string();
        if (!seen.insert(name).second) continue;
        auto l = std::make_unique<library>();
        l->name = name;
        l->file = path.string();
        l->trusted = trusted;
        load_one(*l);
        libraries_.push_back(std::move(l));
      }
    }
  };
  search(s.trusted_dirs, true, "plugins.trusted_dirs");
  search(s.dirs, false, "plugins.dirs");
  for (const auto *dirs : {&s.trusted_dirs, &s.dirs})
    for (const std::string &dir : *dirs) note_absent(dir);

  const auto named = [&](const std::string &name, const std::string &where) {
    const auto it = std::find_if(libraries_.begin(), libraries_.end(), [&](const auto &l) { return l->name == name; });
    if (it == libraries_.end() || (*it)->state == library_state::absent) {
      const std::vector<std::string> names(seen.begin(), seen.end());
      const std::string near = nearest(name, names);
      note(fail(errc::not_found,
                "there is no " + name + ".so in the plugin folders" + (near.empty() ? "; they hold: " + list_of(names) : "; did you mean \"" + near + "\"?"),
                where));
    } else if ((*it)->state == library_state::refused) {
      (*it)->told = true;
      note(fail(errc::invalid, "the plugin \"" + name + "\" (" + (*it)->file + ") was refused: " + (*it)->reason, where));
    }
  };
  for (size_t i = 0; i < s.enable.size(); ++i) named(s.enable[i], "plugins.enable[" + std::to_string(i) + "]");
  for (const auto &[name, pin] : s.pins) named(name, "plugins.pins." + name);
  for (const auto &[name, json] : s.configuration) {
    const auto place = s.places.find(name);
    const std::string where = place == s.places.end() ? "plugins.configuration." + name : place->second;
    const size_t slash = name.find('/');
    const uint32_t kind = slash == std::string::npos ? 0 : kind_of(name.substr(0, slash));
    const std::string id = slash == std::string::npos ? name : name.substr(slash + 1);
    const auto it = std::find_if(components_.begin(), components_.end(), [&](const auto &c) {
      return c.first.second == id && (slash == std::string::npos || c.first.first == kind);
    });
    if (it != components_.end()) {
      if (auto fine = configure(it->second, configuration(it->second), id); !fine) note(fine.why().at(where));
    } else if (slash != std::string::npos && kind != 0) {
      note(missing(kind, id).at(where));
    } else {
      note(fail(errc::not_found, "no enabled plugin provides \"" + name + "\"", where));
    }
  }
  return problems_.empty() ? status() : problems_.front();
}

// A library that was taken away leaves its description: what misses it can be told its name.
void component_registry::note_absent(const std::string &dir) {
  constexpr std::string_view ending = ".plugin.json";
  std::error_code ec;
  std::set<fs::path> files;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) files.insert(it->path());
  for (const fs::path &path : files) {
    const std::string file = path.filename().string();
    if (!file.ends_with(ending)) continue;
    const std::string name = file.substr(0, file.size() - ending.size());
    if (std::any_of(libraries_.begin(), libraries_.end(), [&](const auto &l) { return l->name == name; })) continue;
    auto l = std::make_unique<library>();
    l->name = name;
    l->file = (path.parent_path() / (name + ".so")).string();
    l->state = library_state::absent;
    l->reason = "there is no " + l->file;
    l->description = hint(l->file);
    if (l->description.components.empty()) continue;
    libraries_.push_back(std::move(l));
  }
}

void component_registry::load_one(library &l) {
  const auto pin = settings_.pins.find(l.name);
  const bool wanted = contains(settings_.enable, l.name) || (l.trusted && settings_.enable_trusted);
  if (contains(settings_.disable, l.name) || !wanted) {
    l.reason = wanted ? "it stands in plugins.disable" : "it is not named in plugins.enable";
    l.description = hint(l.file);
    return;
  }
  library_facts facts;
  auto d = load_library(l.file, pin == settings_.pins.end() ? std::string() : pin->second, l.trusted, settings_, facts);
  l.sha256 = std::move(facts.sha256);
  l.mapped = facts.mapped;
  status st = d ? status() : d.why();
  if (d) {
    l.description = std::move(*d);
    st = adopt(l);
  }
  l.state = st.ok() ? library_state::loaded : library_state::refused;
  if (st.ok()) return;
  l.reason = st.message();
  if (!d) l.description = hint(l.file);
}

// All or nothing: a library of which one component cannot be used would otherwise be half there.
status component_registry::adopt(library &l) {
  for (const auto &c : l.description.components) {
    if (kind_name(c.kind) == "unknown") continue;
    if (const auto it = components_.find({c.kind, c.id}); it != components_.end()) {
      return fail(errc::conflict, "its " + std::string(kind_name(c.kind)) + " \"" + c.id + "\" is already provided by \"" + it->second.from->name + "\"");
    }
    for (const auto &f : c.fields) {
      const auto *taken = field(f.name);
      const component_description *other = taken != nullptr ? taken->gate->what : nullptr;
      std::string owner = taken != nullptr ? taken->gate->from->name : std::string();
      for (const auto &before : l.description.components) {
        if (&before == &c) break;
        for (const auto &g : before.fields) {
          if (g.name == f.name && other == nullptr) other = &before, owner = l.name;
        }
      }
      if (other != nullptr) {
        return fail(errc::conflict, "its gate \"" + c.id + "\" serves the field \"" + f.name + "\", which the gate \"" + other->id +
                                        "\" of \"" + owner + "\" already serves; enable one of the two");
      }
    }
  }
  for (const auto &c : l.description.components) {
    if (kind_name(c.kind) == "unknown") continue;
    const auto it = components_.emplace(key{c.kind, c.id}, component{&c, &l}).first;
    for (const auto &f : c.fields) fields_.emplace(f.name, gate_field{&f, &it->second});
  }
  return {};
}

status component_registry::add(const hive_plugin *table, std::string name) {
  auto l = std::make_unique<library>();
  l->name = std::move(name);
  l->file = "built in";
  l->mapped = true;
  l->trusted = true;
  auto d = describe(table);
  status st = d ? status() : d.why();
  if (d) {
    l->description = std::move(*d);
    st = adopt(*l);
  }
  l->state = st.ok() ? library_state::loaded : library_state::refused;
  l->reason = st.message();
  libraries_.push_back(std::move(l));
  return st;
}

const component *component_registry::find(uint32_t kind, std::string_view id) const {
  const auto it = components_.find(key{kind, std::string(id)});
  return it == components_.end() ? nullptr : &it->second;
}

const gate_field *component_registry::field(std::string_view name) const {
  const auto it = fields_.find(name);
  return it == fields_.end() ? nullptr : &it->second;
}

std::vector<std::string> component_registry::ids(uint32_t kind) const {
  std::vector<std::string> out;
  for (const auto &[k, c] : components_) {
    if (k.first == kind) out.push_back(k.second);
  }
  return out;
}

std::vector<std::string> component_registry::fields() const {
  std::vector<std::string> out;
  for (const auto &[name, f] : fields_) out.push_back(name);
  return out;
}

status component_registry::unknown(std::string_view what, std::string_view name, const std::vector<std::string> &known,
                                   const std::string &provider) const {
  std::string text = "no " + std::string(what) + " \"" + std::string(name) + "\"";
  if (!provider.empty()) text += "; " + provider;
  else if (const std::string near = nearest(name, known); !near.empty()) text += "; did you mean \"" + near + "\"?";
  return fail(errc::not_found, text + "; there are: " + list_of(known));
}

status component_registry::missing(uint32_t kind, std::string_view id) const {
  std::string provider;
  for (const auto &l : libraries_) {
    if (l->state == library_state::loaded) continue;
    for (const auto &c : l->description.components) {
      if (c.kind == kind && c.id == id)
        provider = "the plugin \"" + l->name + "\" would provide it but is " + std::string(to_string(l->state)) + " (" + l->reason + ")";
    }
  }
  return unknown(kind_name(kind), id, ids(kind), provider);
}

status component_registry::missing_field(std::string_view name) const {
  std::string provider;
  for (const auto &l : libraries_) {
    if (l->state == library_state::loaded) continue;
    for (const auto &c : l->description.components) {
      for (const auto &f : c.fields) {
        if (f.name == name) provider = "the plugin \"" + l->name + "\" would provide it but is " + std::string(to_string(l->state)) + " (" + l->reason + ")";
      }
    }
  }
  return unknown("gate field", name, fields(), provider);
}

result<std::string> component_registry::configure(const component &c, std::string_view json, std::string_view instance) const {
  auto text = c.what->options.apply(json);
  if (!text || c.table()->check == nullptr) return text;
  error_words said;
  const hive_config config{sizeof(hive_config), 0, {instance.data(), instance.size()}, {text->data(), text->size()}, nullptr};
  const hive_status st = c.table()->check(&config, said.sink());
  if (st == HIVE_OK) return text;
  return fail(errc::invalid, said.or_else("the plugin refuses this configuration (status " + std::to_string(st) + ")"));
}

void component_registry::track(const instance &i) { instances_.push_back(&i); }
void component_registry::untrack(const instance &i) {
  if (std::erase(instances_, &i) != 0) gone_[{i.what().kind(), i.what().id()}] += i.stats().read();
}

std::map<std::pair<uint32_t, std::string>, call_stats::totals> component_registry::totals() const {
  auto out = gone_;
  for (const instance *i : instances_) out[{i->what().kind(), i->what().id()}] += i->stats().read();
  return out;
}

std::string component_registry::configuration(const component &c) const {
  const std::string full = std::string(kind_name(c.kind())) + "/" + c.id();
  std::string written = "{}";
  for (const std::string &k : {c.id(), full}) {
    if (const auto it = settings_.configuration.find(k); it != settings_.configuration.end()) written = it->second;
  }
  const auto ours = settings_.program_values.find(full);
  if (ours == settings_.program_values.end()) return written;
  boost::system::error_code error;
  const boost::json::value over = boost::json::parse(written, error);
  boost::json::value merged = boost::json::parse(ours->second);
  if (error || !over.is_object()) return written;  // the schema says what is wrong with it
  for (const auto &[name, value] : over.as_object()) merged.as_object()[name] = value;
  return boost::json::serialize(merged);
}

}  // namespace hive::plugins
