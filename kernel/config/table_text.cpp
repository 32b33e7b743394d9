// What the table shows of itself: --help, --print-config, the reference page.
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include <algorithm>

#include "base/text.hpp"
#include "config/table.hpp"

namespace hive::config {
namespace {

constexpr std::string_view mask = "\"********\"";

// Text as a YAML scalar: plain where it cannot be taken for anything else.
std::string scalar(const std::string &text) {
  const bool plain = !text.empty() && !yaml::is_number(text) && text.front() != '-' &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              std::string_view("._/-").find(c) != std::string_view::npos;
                     });
  for (const char *word : {"true", "false", "null", "yes", "no", "on", "off"})
    if (iequals(text, word)) return "\"" + text + "\"";
  return plain ? text : boost::json::serialize(boost::json::string(text));
}

struct shower {
  std::string operator()(const std::string *v) const { return scalar(*v); }
  std::string operator()(const int64_t *v) const { return std::to_string(*v); }
  std::string operator()(const bool *v) const { return *v ? "true" : "false"; }
  std::string operator()(const duration *v) const { return format_duration(v->ns); }
  std::string operator()(const byte_count *v) const { return std::to_string(v->bytes); }
  std::string operator()(const address *v) const { return scalar(v->text()); }
  std::string operator()(const std::vector<std::string> *v) const {
    std::string out = "[";
    for (const std::string &item : *v) out += (out.size() > 1 ? ", " : "") + scalar(item);
    return out + "]";
  }
};

struct emptiness {
  bool operator()(const std::string *v) const { return v->empty(); }
  bool operator()(const std::vector<std::string> *v) const { return v->empty(); }
  bool operator()(const auto *) const { return false; }
};

struct namer {
  std::string operator()(const std::string *) const { return "TEXT"; }
  std::string operator()(const int64_t *) const { return "NUMBER"; }
  std::string operator()(const bool *) const { return ""; }
  std::string operator()(const duration *) const { return "DURATION"; }
  std::string operator()(const byte_count *) const { return "BYTES"; }
  std::string operator()(const address *) const { return "HOST:PORT"; }
  std::string operator()(const std::vector<std::string> *) const { return "A,B"; }
};

// Never given, and what stands in its place is no value that one could write.
bool is_unset(const setting &row) {
  if (row.from != origin::built_in || !row.built_in.empty()) return false;
  if (std::holds_alternative<address *>(row.where)) return true;
  if (const auto *text = std::get_if<std::string *>(&row.where); text != nullptr && row.checks) return (*text)->empty() && !row.checks("");
  const int64_t *const number = std::holds_alternative<int64_t *>(row.where) ? std::get<int64_t *>(row.where) : nullptr;
  return number != nullptr && row.has_range && (*number < 0 || static_cast<uint64_t>(*number) < row.min);
}

std::string range_of(const setting &row) {
  if (!row.has_range) return {};
  const auto shown = [&](uint64_t n) {
    return std::holds_alternative<duration *>(row.where) ? format_duration(n) : std::to_string(n);
  };
  return row.max == INT64_MAX ? "at least " + shown(row.min) : shown(row.min) + " to " + shown(row.max);
}

std::string default_of(const setting &row) {
  if (!row.built_in.empty()) return row.built_in;
  return std::holds_alternative<bool *>(row.where) ? "false" : "";
}

// Words broken at 100 columns behind `indent` blanks.
std::string wrapped(const std::string &text, size_t indent) {
  constexpr size_t width = 100;
  std::string out;
  size_t column = width;
  for (const std::string &word : split_trimmed(text, ' ')) {
    if (column + 1 + word.size() > width) {
      out += (out.empty() ? "" : "\n") + std::string(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string origin_text(const setting &row) { return row.from == origin::built_in ? "built-in" : row.source; }

}  // namespace

std::string type_name(const setting &row) {
  if (!row.placeholder.empty()) return row.placeholder;
  if (row.allowed.empty()) return std::visit(namer{}, row.where);
  std::string out;
  for (const std::string &name : row.allowed)
    if (!name.empty()) out += (out.empty() ? "" : "|") + name;
  return out;
}

std::string table::value_text(const setting &row) const {
  if (row.is_secret && !std::visit(emptiness{}, row.where)) return std::string(mask);
  if (is_unset(row)) return "null";  // printed settings can be read again
  return std::visit(shower{}, row.where);
}

std::string table::resolved() const {
  std::string out, nested, open_map;
  const auto line = [](std::string text, const setting &row) {
    text.resize(std::max<size_t>(text.size() + 1, 44), ' ');
    return text + "# " + origin_text(row) + "\n";
  };
  for (const setting &row : rows_) {
    if (!row.unused_why.empty()) continue;
    const size_t dot = row.key.find('.');
    if (dot == std::string::npos) {
      out += line((row.key.empty() ? "# " + row.name : row.key) + ": " + value_text(row), row);
      continue;
    }
    if (open_map != row.key.substr(0, dot)) nested += row.key.substr(0, dot) + ":\n";
    open_map = row.key.substr(0, dot);
    nested += line("  " + row.key.substr(dot + 1) + ": " + value_text(row), row);
  }
  return out + nested;
}

std::string table::help() const {
  std::string out = "usage: " + program_ + " [flags]\n\n"
                    "A flag wins over its environment variable, that over the file of --config, that over the built-in value.\n";
  std::string section;
  for (const setting &row : rows_) {
    if (row.section != section) out += "\n" + row.section + "\n";
    section = row.section;
    const std::string type = type_name(row);
    if (row.has_flag) out += "  --" + row.name + (type.empty() ? "" : " " + type);
    else out += "  " + row.env.front() + "=" + type;
    if (row.has_flag && !row.env.empty()) out += "   (" + row.env.front() + ")";
    std::string text = row.help;
    if (const std::string range = range_of(row); !range.empty()) text += " " + range + ".";
    if (row.is_repeatable) text += " May be given several times.";
    if (!row.unused_why.empty()) text += " Accepted, not used.";
    if (const std::string value = default_of(row); !value.empty()) text += " Default " + value + ".";
    out += "\n" + wrapped(text, 6) + "\n";
  }
  return out;
}

std::string table::markdown() const {
  std::string out = "# Settings of " + program_ +
                    "\n\nMade by `hive-settings-docs` from the program's own table; do not edit.\n\n"
                    "A flag wins over its environment variable, that over the file named by `--config`, that over the built-in value.\n"
                    "`-x` and `--x` are the same, `--x v` and `--x=v` too; parsing stops at the first argument that is no flag.\n"
                    "Durations are written `500ms`, `5s`, `2m`, `1h30m`; sizes in bytes or as `64KiB`, `10MiB`; "
                    "addresses as `:8080`, `127.0.0.1:8080`, `[::1]:8080`.\n"
                    "In the file numbers follow JSON's grammar (no `010`, `0x10`, `1_000`), booleans are `true` and `false`, `null` means absent.\n"
                    "An unknown key, a wrong type or a value out of range stops the program at start; all problems are reported at once.\n";
  std::string section;
  for (const setting &row : rows_) {
    if (row.section != section)
      out += "\n## " + row.section + "\n\n| Flag | Environment | Key in the file | Value | Default | Meaning |\n|---|---|---|---|---|---|\n";
    section = row.section;
    const std::string type = type_name(row);
    std::string env;
    for (const std::string &name : row.env) env += (env.empty() ? "`" : ", `") + name + "`";
    std::string value = type.empty() ? "true, false" : "`" + type + "`";
    if (const std::string range = range_of(row); !range.empty()) value += ", " + range;
    std::string text = row.help;
    if (row.is_repeatable) text += " May be given several times.";
    for (const std::string &other : row.other_flags) text += " Also `--" + other + "`.";
    for (const std::string &old : row.aliases) text += " Old name: `--" + old + "`.";
    if (!row.unused_why.empty()) text += " Accepted, not used: " + row.unused_why + ".";
    const std::string built_in = default_of(row);
    out += "| " + (row.has_flag ? "`--" + row.name + "`" : std::string()) + " | " + env + " | " +
           (row.key.empty() ? "" : "`" + row.key + "`") + " | " + cell(value) + " | " +
           (built_in.empty() ? "" : "`" + built_in + "`") + " | " + cell(text) + " |\n";
  }
  return out;
}

std::string table::limits() const {
  std::string out = "\n## " + program_ + "\n\n| Setting | Default | From, to | What it bounds |\n|---|---|---|---|\n";
  for (const setting &row : rows_) {
    const bool descriptor = row.name.ends_with("-fd");
    if (!row.has_range || !row.unused_why.empty() || descriptor) continue;
    const std::string built_in = default_of(row);
    out += "| " + (row.has_flag ? "`--" + row.name + "`" : "`" + row.key + "`") + " | " + (built_in.empty() ? "" : "`" + built_in + "`") +
           " | " + range_of(row) + " | " + cell(row.help) + " |\n";
  }
  return out;
}

}  // namespace hive::config
