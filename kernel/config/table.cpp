#include "config/table.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "base/text.hpp"

namespace hive::config {
namespace {

std::string underscored(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

std::string upper(std::string text) {
  for (char &c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

std::string quote(const std::string &text) { return "\"" + text + "\""; }

status wrong(std::string message) { return fail(errc::invalid, std::move(message)); }

result<uint64_t> whole(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool zero_led = text.size() > 1 && text.front() == '0';
  if (error == std::errc::result_out_of_range) return UINT64_MAX;
  if (text.empty() || zero_led || error != std::errc() || end != text.data() + text.size())
    return wrong(quote(std::string(text)) + " is not a whole number; write one like 12");
  return value;
}

result<uint64_t> parse_bytes(const std::string &text) {
  static constexpr std::pair<std::string_view, uint64_t> units[] = {
      {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"", 1}};
  for (const auto &[unit, factor] : units) {
    if (!text.ends_with(unit)) continue;
    const auto count = whole(std::string_view(text).substr(0, text.size() - unit.size()));
    if (!count) break;
    return *count > INT64_MAX / factor ? UINT64_MAX : *count * factor;
  }
  return wrong(quote(text) + " is not a size; write bytes, or one like 64KiB or 10MiB");
}

result<bool> parse_bool(const std::string &text) {
  for (const char *word : {"1", "t", "T", "TRUE", "true", "True"})
    if (text == word) return true;
  for (const char *word : {"0", "f", "F", "FALSE", "false", "False"})
    if (text == word) return false;
  return wrong(quote(text) + " is neither true nor false; write one of the two");
}

// Puts one text into the setting's target.
struct writer {
  const setting &row;
  const std::vector<std::string> &values;

  const std::string &one() const { return values.back(); }
  status in_range(uint64_t value, bool negative, const auto &shown) const {
    if (!negative && value >= row.min && value <= row.max) return {};
    if (row.max == INT64_MAX) return wrong(one() + " is out of range; it must be at least " + shown(row.min));
    return wrong(one() + " is out of range; it must be between " + shown(row.min) + " and " + shown(row.max));
  }
  status checked(const std::string &text) const {
    if (!row.allowed.empty() && std::find(row.allowed.begin(), row.allowed.end(), text) == row.allowed.end()) {
      std::string names;
      for (const std::string &name : row.allowed)
        if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
      const std::string close = nearest(text, row.allowed);
      return wrong(quote(text) + " is not one of " + names + (close.empty() ? "" : "; did you mean " + quote(close) + "?"));
    }
    return row.checks ? row.checks(text) : status();
  }

  status operator()(std::string *out) const {
    if (status good = checked(one()); !good) return good;
    *out = one();
    return {};
  }
  status operator()(std::vector<std::string> *out) const {
    for (const std::string &value : values)
      if (status good = checked(value); !good) return good;
    *out = values;
    return {};
  }
  status operator()(bool *out) const {
    const auto value = parse_bool(one());
    if (!value) return value.why();
    *out = *value;
    return {};
  }
  status operator()(int64_t *out) const {
    const bool negative = one().starts_with('-');
    const auto value = whole(std::string_view(one()).substr(negative ? 1 : 0));
    if (!value) return wrong(quote(one()) + " is not a whole number; write one like 12");
    if (status good = in_range(*value, negative && *value > 0, [](uint64_t n) { return std::to_string(n); }); !good) return good;
    *out = static_cast<int64_t>(*value);
    return {};
  }
  status operator()(duration *out) const {
    const bool negative = one().starts_with('-');
    const auto value = parse_duration_ns(std::string_view(one()).substr(negative ? 1 : 0));
    if (!value) {
      const auto number = whole(one());
      return wrong(number ? one() + " has no unit; write " + one() + "s or " + one() + "ms"
                          : quote(one()) + " is not a duration; write one like 500ms, 5s, 2m or 1h30m");
    }
    if (status good = in_range(*value, negative && *value > 0, format_duration); !good) return good;
    out->ns = *value;
    return {};
  }
  status operator()(byte_count *out) const {
    const bool negative = one().starts_with('-');
    const auto value = parse_bytes(one().substr(negative ? 1 : 0));
    if (!value) return value.why();
    if (status good = in_range(*value, negative && *value > 0, [](uint64_t n) { return std::to_string(n); }); !good) return good;
    out->bytes = *value;
    return {};
  }
  status operator()(address *out) const {
    auto value = parse_address(one());
    if (!value) return value.why();
    *out = *std::move(value);
    return {};
  }
};

// What the YAML type rules say beyond the text: a quoted number is text, a list is no number, null is absent.
result<std::vector<std::string>> from_node(const yaml::node &node, const setting &row) {
  const auto as_is = [&] { return std::vector<std::string>{node.text()}; };
  if (std::holds_alternative<std::vector<std::string> *>(row.where)) return node.as_texts();
  if (std::holds_alternative<int64_t *>(row.where)) {
    if (const auto value = node.as_int(); !value) return value.why();
    return as_is();
  }
  if (std::holds_alternative<bool *>(row.where)) {
    const auto value = node.as_bool();
    if (!value) return value.why();
    return std::vector<std::string>{*value ? "true" : "false"};
  }
  auto text = node.as_text();
  if (!text) return text.why();
  return std::vector<std::string>{*std::move(text)};
}

bool is_text(const setting &row) { return std::holds_alternative<std::string *>(row.where) && row.placeholder != "PATH"; }
bool is_bool(const setting &row) { return std::holds_alternative<bool *>(row.where); }
bool is_list(const setting &row) { return std::holds_alternative<std::vector<std::string> *>(row.where); }


}  // namespace

setting &setting::range(uint64_t least, uint64_t most) { min = least; max = most; has_range = true; return *this; }
setting &setting::choices(std::vector<std::string> names) { allowed = std::move(names); return *this; }
setting &setting::check(std::function<status(const std::string &)> one) { checks = std::move(one); return *this; }
setting &setting::shown_as(std::string text) { placeholder = std::move(text); return *this; }
setting &setting::also_env(std::string variable) { env.push_back(std::move(variable)); return *this; }
setting &setting::alias(std::string flag) { aliases.push_back(std::move(flag)); return *this; }
setting &setting::also_flag(std::string flag) { other_flags.push_back(std::move(flag)); return *this; }
setting &setting::no_env() { env.clear(); return *this; }
setting &setting::no_flag() { has_flag = false; return *this; }
setting &setting::no_file() { key.clear(); return *this; }
setting &setting::at_key(std::string path) { key = std::move(path); return *this; }
setting &setting::repeatable() { is_repeatable = true; return *this; }
setting &setting::secret() { is_secret = true; return *this; }
setting &setting::unused(std::string why) { unused_why = std::move(why); return *this; }

setting &table::add(std::string name, target where, std::string built_in, std::string help) {
  setting row;
  row.key = underscored(name);
  row.env = {prefix_ + upper(row.key)};
  row.name = std::move(name);
  row.where = where;
  row.built_in = std::move(built_in);
  row.help = std::move(help);
  row.section = section_;
  rows_.push_back(std::move(row));
  return rows_.back();
}

const setting *table::find(std::string_view name) const {
  for (const setting &row : rows_)
    if (row.name == name) return &row;
  return nullptr;
}

origin table::origin_of(std::string_view name) const {
  const setting *row = find(name);
  return row ? row->from : origin::built_in;
}

setting *table::by_flag(std::string_view flag) {
  const auto holds = [&](const std::vector<std::string> &names) { return std::find(names.begin(), names.end(), flag) != names.end(); };
  for (setting &row : rows_)
    if (row.has_flag && (row.name == flag || holds(row.aliases) || holds(row.other_flags))) return &row;
  return nullptr;
}

status table::put(setting &row, const std::vector<std::string> &values, origin from, std::string source) {
  if (values.empty() && !is_list(row)) return fail(errc::invalid, "has no value", source);
  if (status good = std::visit(writer{row, values}, row.where); !good)
    return fail(good.code(), row.is_secret ? "the value is not valid" : good.message(), source);
  row.from = from;
  row.source = std::move(source);
  return {};
}

void table::apply_built_in() {
  for (setting &row : rows_) {
    if (row.built_in.empty()) continue;  // the target's own initial value
    [[maybe_unused]] const status put_in =
        put(row, is_list(row) ? split_trimmed(row.built_in, ',') : std::vector<std::string>{row.built_in}, origin::built_in, "");
    assert(put_in.ok());
  }
}

void table::forget() {
  for (setting &row : rows_) {
    row.from = origin::built_in;
    row.source.clear();
  }
}

void table::apply_file(const yaml::node &root, const std::vector<std::string> &other_keys, std::vector<status> &problems) {
  if (status map = root.want_map(); !map) return problems.push_back(map);
  std::vector<std::string> known = other_keys;
  for (const setting &row : rows_)
    if (!row.key.empty()) known.push_back(row.key.substr(0, row.key.find('.')));
  for (status &unknown : root.unknown_keys(known)) problems.push_back(std::move(unknown));

  for (setting &row : rows_) {
    if (row.key.empty()) continue;
    const yaml::node *node = &root;
    for (const std::string &step : split_trimmed(row.key, '.')) node = node ? node->find(step) : nullptr;
    if (node == nullptr || (node->is_null() && !(is_text(row) && row.allowed.empty() && !node->text().empty()))) continue;
    auto values = from_node(*node, row);
    if (!values) {
      problems.push_back(values.why());
      continue;
    }
    if (status good = put(row, *values, origin::file, node->where()); !good)
      problems.push_back(fail(good.code(), good.message(), node->where() + ": " + node->path()));
  }
}

void table::apply_environment(const environment &variables, std::vector<status> &problems, std::vector<std::string> &warnings) {
  std::vector<std::string> known;
  for (setting &row : rows_) {
    known.insert(known.end(), row.env.begin(), row.env.end());
    for (const std::string &name : row.env) {
      const auto found = variables.find(name);
      if (found == variables.end()) continue;
      const bool takes_empty = is_list(row) || (is_text(row) && row.allowed.empty());
      if (found->second.empty() && !takes_empty) continue;  // NAME= is how shells and units leave a variable out
      const std::vector<std::string> values =
          is_list(row) ? split_trimmed(found->second, ',') : std::vector<std::string>{found->second};
      if (status good = put(row, values, origin::environment, name); !good) problems.push_back(good);
      else if (!row.unused_why.empty()) warnings.push_back(name + " is accepted but not used: " + row.unused_why);
      break;
    }
  }
  for (const auto &[name, value] : variables) {
    const bool ours = name.starts_with(prefix_) && (prefix_.find("AGENT") != std::string::npos || !name.starts_with(prefix_ + "AGENT_"));
    if (!ours || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string close = nearest(name, known);
    warnings.push_back(name + " is set but is no variable of " + program_ + (close.empty() ? "" : "; did you mean " + close + "?"));
  }
}

std::vector<std::string> table::apply_flags(const std::vector<std::string> &arguments, std::vector<status> &problems,
                                            std::vector<std::string> &warnings) {
  size_t at = 0;
  std::map<setting *, std::vector<std::string>> repeated;
  for (; at < arguments.size(); ++at) {
    const std::string &argument = arguments[at];
    if (argument.size() < 2 || argument[0] != '-') break;
    if (argument == "--") {
      ++at;
      break;
    }
    std::string name = argument.substr(argument.starts_with("--") ? 2 : 1);
    const size_t equals = name.find('=');
    const bool has_value = equals != std::string::npos;
    std::string value = has_value ? name.substr(equals + 1) : std::string();
    name.resize(std::min(name.size(), equals));
    const std::string shown = "--" + name;

    setting *row = by_flag(name);
    if (row == nullptr) {
      std::vector<std::string> names;
      for (const setting &each : rows_)
        if (each.has_flag) names.push_back(each.name);
      const std::string close = nearest(name, names);
      problems.push_back(fail(errc::invalid, "no such flag" + (close.empty() ? std::string("; --help lists them") : "; did you mean --" + close + "?"), shown));
      // What follows may be its value or not; guessing would turn one error into several.
      if (!has_value && at + 1 < arguments.size() && !arguments[at + 1].starts_with('-')) ++at;
      continue;
    }
    if (!has_value && is_bool(*row)) value = "true";
    else if (!has_value && at + 1 < arguments.size()) value = arguments[++at];
    else if (!has_value) {
      problems.push_back(fail(errc::invalid, "needs a value", shown));
      continue;
    }
    if (std::find(row->aliases.begin(), row->aliases.end(), name) != row->aliases.end())
      warnings.push_back(shown + " is an old name of --" + row->name + "; use that");
    if (!row->unused_why.empty()) warnings.push_back(shown + " is accepted but not used: " + row->unused_why);

    std::vector<std::string> values{value};
    if (row->is_repeatable) {
      auto &all = repeated[row];
      all.push_back(value);
      values = all;
    } else if (is_list(*row)) {
      values = split_trimmed(value, ',');
    }
    if (status good = put(*row, values, origin::flag, shown); !good) problems.push_back(good);
  }
  return {arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end()};
}

}  // namespace hive::config
