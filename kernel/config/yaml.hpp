// A strict YAML front: text in, an immutable tree of our own out, every node with its file, line and path.
// Nodes are plain values; reading one is safe from any thread.
//
// Strictness: size, depth and alias expansion are bounded while the parser runs, duplicate keys are refused with both
// lines, merge keys (`<<`) are resolved, a second document is refused, a BOM and CRLF are accepted, `$` is literal.
//
// The number rule is JSON's grammar on the unquoted text: 0, -5, 12, 1.5, 1e3. So 010, 08, 0x10, 1_000, +5, .5, .nan, .inf
// and 12:30 are no numbers. Booleans are true and false (also True, TRUE, ...). A text field keeps the text as written
// (NO, 1.10, null). `~`, an empty value and, outside text fields, null mean absent.
#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace hive::config::yaml {

struct limits {
  size_t bytes = size_t{1} << 20;
  size_t depth = 64;
  size_t nodes = 100'000;  // after aliases and merge keys are expanded
};

enum class kind : uint8_t { null, scalar, list, map };

class node {
 public:
  struct entry;

  yaml::kind kind() const { return kind_; }
  bool is_null() const { return kind_ == kind::null; }
  bool is_map() const { return kind_ == kind::map; }
  bool is_list() const { return kind_ == kind::list; }
  bool is_scalar() const { return kind_ == kind::scalar; }
  const std::string &text() const { return text_; }  // of a scalar, and of a null written as a word
  bool quoted() const { return quoted_; }            // quoted, block scalar, or tagged !!str
  int line() const { return line_; }                 // from 1; an alias has the line of its anchor
  int column() const { return column_; }
  const std::string &path() const { return path_; }  // "plugins.dirs[0]", empty at the root
  std::string_view file() const { return file_ ? std::string_view(*file_) : std::string_view(); }
  std::string where() const;                         // "router.yaml:12"

  const std::vector<entry> &entries() const { return entries_; }  // of a map, in the order written
  const std::vector<node> &items() const { return items_; }       // of a list
  const node *find(std::string_view key) const;                   // null when absent; a null value is found

  // The typed readers. An error's text is "FILE:LINE: path: what is wrong, what would be right". None accepts null.
  result<std::string> as_text() const;  // any scalar as written; the word null too
  result<bool> as_bool() const;
  result<int64_t> as_int(int64_t min = INT64_MIN, int64_t max = INT64_MAX) const;
  result<double> as_number() const;     // finite
  result<uint64_t> as_duration_ns() const;
  result<std::vector<std::string>> as_texts() const;  // a list of scalars; one scalar is a list of one
  status want_map() const;   // ok for a map and for null
  status want_list() const;  // ok for a list and for null

  // One error for each key that is not allowed, with the nearest name.
  std::vector<status> unknown_keys(std::initializer_list<std::string_view> allowed) const;
  std::vector<status> unknown_keys(const std::vector<std::string> &allowed) const;
  // An error at this node, in the form of the readers' errors.
  status wrong(std::string message) const;

  // Plain scalars follow the rules above (what is no number, boolean or null stays text), quoted ones are text.
  // Integers that fit become int64 or uint64, other numbers double.
  boost::json::value to_json() const;

 private:
  friend class builder;
  friend class json_builder;
  yaml::kind kind_ = kind::null;
  bool quoted_ = false;
  int line_ = 0;
  int column_ = 0;
  std::string text_;
  std::string path_;
  std::shared_ptr<const std::string> file_;
  std::vector<entry> entries_;
  std::vector<node> items_;
};

struct node::entry {
  std::string key;
  int key_line = 0;
  bool key_quoted = false;
  node value;
};

// The same tree of a JSON value, for whoever reads both; its nodes have no file and no line, and paths that begin with `path`.
// Texts are quoted ones. Recurses as deep as the value.
node from_json(const boost::json::value &, std::string path);

// `name` stands in messages. Empty text is a null node.
result<node> parse(std::string_view text, std::string name, const limits & = {});
// Opens once and reads to the end, so a symlink swapped meanwhile cannot mix two files. Regular files only: a device or a
// pipe would never end.
result<std::string> read_file(const std::string &file, size_t most = limits{}.bytes);
result<node> parse_file(const std::string &file, const limits & = {});

// The number rule on its own, for flags and environment variables.
bool is_number(std::string_view text);

}  // namespace hive::config::yaml
