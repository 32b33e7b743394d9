// Validates configuration against the subset of JSON Schema draft-07 that components may use: type, enum, const,
// required, properties, additionalProperties, items (one schema), minimum, maximum, minLength, maxLength, default; title,
// description and examples are carried along. Any other keyword refuses the schema, so no constraint is silently ignored.
// Immutable after parse; any thread.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "base/status.hpp"

namespace hive::plugins {

class schema {
 public:
  schema() : root_(true) {}  // accepts everything

  // errc::invalid with the path inside the schema, e.g. "properties.a: the keyword \"pattern\" is not in the subset".
  static result<schema> parse(std::string_view text);
  static result<schema> from(boost::json::value document);

  // Whether `value` is valid; the status carries the path inside the value and, for an unknown key, the nearest known.
  status validate(const boost::json::value &value) const;
  // Adds the defaults of members that are absent. Does not validate them; parse of a component's schema has.
  void fill(boost::json::value &value) const;
  // Every default obeys the schema it stands in.
  status check_defaults() const;
  // Text in, canonical text with defaults out. Empty text reads as {}.
  result<std::string> apply(std::string_view text) const;

  const boost::json::value &document() const { return root_; }

 private:
  boost::json::value root_;
};

}  // namespace hive::plugins
