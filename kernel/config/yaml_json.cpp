// From a JSON value to our tree.
#include <boost/json/serialize.hpp>

#include <utility>

#include "base/number_text.hpp"
#include "config/yaml.hpp"

namespace hive::config::yaml {

namespace json = boost::json;

namespace {

constexpr size_t most_shown_key = 64;

}  // namespace

class json_builder {
 public:
  static node make(const json::value &value, std::string path) {
    node made;
    made.path_ = std::move(path);
    if (const json::object *fields = value.if_object()) {
      made.kind_ = kind::map;
      made.entries_.reserve(fields->size());
      for (const auto &field : *fields) {
        const std::string name(field.key());
        const std::string shown = name.substr(0, most_shown_key);  // every node below keeps it
        made.entries_.push_back({name, 0, true, make(field.value(), made.path_.empty() ? shown : made.path_ + "." + shown)});
      }
    } else if (const json::array *items = value.if_array()) {
      made.kind_ = kind::list;
      made.items_.reserve(items->size());
      for (const json::value &item : *items)
        made.items_.push_back(make(item, made.path_ + "[" + std::to_string(made.items_.size()) + "]"));
    } else if (!value.is_null()) {
      made.kind_ = kind::scalar;
      made.quoted_ = value.is_string();
      made.text_ = value.is_string() ? std::string(value.get_string()) : value.is_double() ? shortest(value.get_double()) : json::serialize(value);
    }
    return made;
  }
};

node from_json(const json::value &value, std::string path) { return json_builder::make(value, std::move(path)); }

}  // namespace hive::config::yaml
