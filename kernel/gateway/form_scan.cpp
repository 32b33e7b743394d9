#include "gateway/form_scan.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/hex_digit.hpp"
#include "base/text.hpp"
#include "gateway/folded_name.hpp"
#include "http/token.hpp"

namespace hive::gateway {

namespace {

constexpr size_t max_boundary = 70;        // RFC 2046
constexpr size_t max_part_header = 4096;
constexpr size_t max_parts = 1024;
constexpr size_t none = std::string_view::npos;

bool in_token(char c) { return http::token_bytes[static_cast<unsigned char>(c)]; }
bool is_token(std::string_view text) { return std::all_of(text.begin(), text.end(), in_token); }
bool in_boundary(char c) { return in_token(c) || (c != '\0' && std::strchr("(),/:=? ", c) != nullptr); }
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

size_t position(std::string_view text, std::string_view of, size_t from) {
  if (from >= text.size()) return none;
  const void *at = memmem(text.data() + from, text.size() - from, of.data(), of.size());
  return at == nullptr ? none : static_cast<size_t>(static_cast<const char *>(at) - text.data());
}

enum class told { no, well, badly };

// A parameter of a header value: "form-data; name=\"model\"" -> model. Well told is a token, or quoted without an escape, behind its name
// as it is written here: some readers do not know it by another case.
told parameter(std::string_view value, std::string_view name, std::string &text) {
  for (size_t at = value.find(';'); at < value.size();) {
    const size_t from = std::min(value.find_first_not_of("; \t", at), value.size());
    at = std::min(value.find_first_of("=;", from), value.size());
    if (at == value.size() || value[at] == ';') continue;
    const std::string_view said = trim(value.substr(from, at - from));
    const bool wanted = iequals(said, name);
    const size_t begin = std::min(value.find_first_not_of(" \t", at + 1), value.size());
    size_t end = begin;
    bool well = said == name;
    if (begin < value.size() && value[begin] == '"') {
      for (++end; end < value.size() && value[end] != '"'; ++end)
        if (value[end] == '\\') ++end;
      const size_t close = std::min(end, value.size());
      text = value.substr(begin + 1, close - begin - 1);
      end = std::min(value.find(';', close), value.size());
      well = well && close < value.size() && trim(value.substr(close + 1, end - close - 1)).empty() && text.find('\\') == std::string::npos;
    } else {
      end = std::min(value.find(';', begin), value.size());
      text = trim(value.substr(begin, end - begin));
      well = well && is_token(text);
    }
    if (wanted) return well ? told::well : told::badly;
    at = end;
  }
  text.clear();
  return told::no;
}

// How often some reader may find that parameter: behind every semicolon, for some know no quotes; its name quoted or not, cut in
// pieces (name*0) or encoded (name*).
size_t mentions(std::string_view value, std::string_view name) {
  size_t n = 0;
  for (size_t at = value.find(';'); at != none; at = value.find(';', at + 1)) {
    const std::string_view rest = value.substr(std::min(value.find_first_not_of(" \t\"", at + 1), value.size()));
    if (!iequals(rest.substr(0, name.size()), name)) continue;
    const size_t behind = rest.find_first_not_of(" \t\"", name.size());
    n += behind != none && (rest[behind] == '=' || rest[behind] == '*');
  }
  return n;
}

struct part_head {
  std::string name;
  bool file = false;
};

// Empty when all readers read the same, else what they would not.
std::string_view read_part(std::string_view header, part_head &out) {
  out = {};
  std::string_view said;
  bool have = false;
  while (!header.empty()) {
    const size_t end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 2, header.size()));
    const size_t colon = std::min(line.find(':'), line.size());
    if (std::any_of(line.begin(), line.end(), is_control)) return "a part's header holds a control character, or a line end that is not CRLF";
    if (colon == 0 || colon == line.size() || !is_token(line.substr(0, colon)) || line.starts_with("--")) return "a line of a part's header is no NAME: VALUE";
    if (!iequals(line.substr(0, colon), "content-disposition")) continue;
    if (have) return "a part has two Content-Disposition lines";
    have = true;
    said = trim(line.substr(colon + 1));
  }
  const size_t named = mentions(said, "name");
  if (named > 1) return "a part's Content-Disposition says its name twice";
  const told how = parameter(said, "name", out.name);
  if (how == told::badly || (named == 1) != (how == told::well) || out.name.find(';') != std::string::npos || said.find("\\\\\"") != none)
    return "a part's Content-Disposition must say its name as name=\"...\", in lower case, without escapes and semicolons, and neither as name* nor "
           "inside of another text";
  const std::string_view kind = trim(said.substr(0, said.find(';')));
  if (!is_token(kind) || (named == 1 && !iequals(kind, "form-data"))) return "the Content-Disposition of a part with a name must be form-data";
  out.file = mentions(said, "filename") != 0;
  return {};
}

// The boundary that a form says it has; empty when it says none, or what readers could read differently.
std::string boundary_of(std::string_view content_type) {
  // Some take what follows the first "boundary=", wherever that stands.
  constexpr std::string_view start = "boundary=";
  const std::string type = lower(content_type);
  const size_t at = type.find(start);
  if (at == std::string::npos || type.find(start, at + 1) != std::string::npos || mentions(type, "boundary") != 1) return {};
  const size_t before = type.find_last_not_of(" \t", at - 1);
  if (at == 0 || before == std::string::npos || type[before] != ';') return {};
  std::string boundary;
  const told how = parameter(content_type, "boundary", boundary);
  // It may hold what a token may not, and all the same stand without quotes.
  if (how == told::no || (how == told::badly && content_type.find('"') != none)) return {};
  const bool sound = !boundary.empty() && boundary.size() <= max_boundary && boundary.back() != ' ';
  return sound && std::all_of(boundary.begin(), boundary.end(), in_boundary) ? boundary : std::string();
}

// Whether text like a=1&b=2 has a name that is `model` once its escapes are gone.
bool names_model(std::string_view pairs) {
  constexpr std::string_view model = "model";
  while (!pairs.empty()) {
    const size_t end = std::min(pairs.find_first_of("&;"), pairs.size());
    std::string_view name = pairs.substr(0, end);
    name = name.substr(0, name.find('='));
    pairs.remove_prefix(std::min(end + 1, pairs.size()));
    if (name.size() < model.size() || name.size() > 3 * model.size()) continue;
    std::string plain;
    for (size_t i = 0; i < name.size(); ++i) {
      const int high = name[i] == '%' && i + 2 < name.size() ? hex_value(name[i + 1]) : -1;
      const int low = high >= 0 ? hex_value(name[i + 2]) : -1;
      plain += low < 0 ? name[i] : static_cast<char>(high * 16 + low);
      if (low >= 0) i += 2;
    }
    if (iequals(plain, model)) return true;
  }
  return false;
}

bool is_urlencoded(std::string_view content_type) {
  return iequals(trim(content_type.substr(0, content_type.find(';'))), "application/x-www-form-urlencoded");
}

}  // namespace

bool is_form(std::string_view content_type) {
  return iequals(trim(content_type.substr(0, content_type.find(';'))), "multipart/form-data");
}

std::optional<scan_error> read_otherwise(std::span<const http::field> fields, std::string_view query, std::string_view body) {
  size_t types = 0;
  bool urlencoded = false;
  for (const http::field &f : fields) {
    if (!iequals(f.name, "content-type")) continue;
    ++types;
    urlencoded = urlencoded || is_urlencoded(f.value);
  }
  if (types > 1) return scan_error{"Content-Type occurs twice", 0};
  if (names_model(query)) return scan_error{"the query string names a \"model\", which some engines take before the body's: name it in the body", 0};
  if (urlencoded && names_model(body))
    return scan_error{"the body also reads as a form with a field \"model\": send JSON as application/json, or a form as multipart/form-data", 0};
  return std::nullopt;
}

std::optional<scan_error> scan_form(std::string_view content_type, std::string_view body, request_scan &out) {
  out = {};
  const auto wrong = [&](std::string what, size_t offset) {
    what += " (byte " + std::to_string(offset) + ")";
    return scan_error{std::move(what), offset};
  };
  const std::string boundary = boundary_of(content_type);
  if (boundary.empty())
    return scan_error{"the Content-Type must name one boundary of 1 to 70 bytes, which are letters, digits and '()+_,-./:=? or blanks within", 0};

  const std::string line_start = "\n--" + boundary;
  const std::string_view mark = std::string_view(line_start).substr(1);
  if (const size_t at = position(body, "\r" + std::string(mark), 0); at != none) return wrong("the boundary stands behind a carriage return alone", at);
  // Where the next boundary line's CRLF ends, from `from` on; a line feed alone makes a line to some.
  bool bare = false;
  const auto next = [&](size_t from) {
    const size_t at = position(body, line_start, from);
    bare = at != none && (at == 0 || body[at - 1] != '\r');
    return at;
  };
  size_t at = 0;
  if (!body.starts_with(mark)) {
    at = next(0);
    if (at == none) return wrong("the body does not hold the boundary that its Content-Type names", 0);
    at += 1;
  }
  bool have_model = false, have_stream = false;
  for (size_t parts = 0;; ++parts) {
    if (bare) return wrong("the boundary stands behind a line feed alone", at);
    at += mark.size();
    const bool over = body.substr(at, 2) == "--";
    if (parts == max_parts && !over) return wrong("the form has more than " + std::to_string(max_parts) + " parts", at);
    size_t line = over ? at + 2 : at;
    while (line < body.size() && (body[line] == ' ' || body[line] == '\t')) ++line;
    if (over) {
      if (line < body.size() && body[line] != '\r' && body[line] != '\n') return wrong("something stands behind the form's last boundary", line);
      if (next(line) != none) return wrong("the boundary occurs again behind the form's end", line);
      break;
    }
    if (body.substr(line, 2) != "\r\n") return wrong("a boundary line of the form does not end", at);
    // A part without header fields starts with the blank line at once.
    const std::string_view head_room = body.substr(line, max_part_header + 4);
    const size_t blank = head_room.find("\r\n\r\n");
    if (blank == none) return wrong("a part's header does not end within 4096 bytes", line);
    const std::string_view header = blank == 0 ? std::string_view() : head_room.substr(2, blank - 2);
    const size_t content = line + blank + 4;
    // An empty content shares its CRLF with the header's end.
    const size_t end = next(content - 1);
    if (end == none) return wrong("a part of the form does not end with the boundary", content);
    const std::string_view value = end - 1 < content ? std::string_view() : body.substr(content, end - 1 - content);
    at = end + 1;
    part_head one;
    if (const std::string_view odd = read_part(header, one); !odd.empty()) return wrong(std::string(odd), line);
    const std::string name = may_fold(one.name) ? folded(one.name) : one.name;
    if (name != "model" && name != "stream") continue;
    if (name != one.name) return wrong("some engines take the field \"" + one.name + "\" for \"" + name + "\": write \"" + name + "\"", line);
    if (name == "model") {
      if (have_model) return wrong("the field \"model\" occurs twice", content);
      have_model = true;
      if (one.file || value.empty() || value.size() > request_scanner::max_model_bytes)
        return wrong("\"model\" must be a text of 1 to 256 bytes", content);
      out.model.assign(value);
      out.model_at = {content, value.size()};
    } else {
      if (have_stream) return wrong("the field \"stream\" occurs twice", content);
      have_stream = true;
      out.stream = !one.file && value == "true";
    }
  }
  if (!have_model) return scan_error{"\"model\" is missing: the form must have a field of that name, a text of 1 to 256 bytes", 0};
  return std::nullopt;
}

}  // namespace hive::gateway
