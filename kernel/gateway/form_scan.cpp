#include "gateway/form_scan.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace hive::gateway {

namespace {

constexpr size_t max_boundary = 70;        // RFC 2046
constexpr size_t max_part_header = 4096;
constexpr size_t max_parts = 1024;

// A parameter of a header value: "form-data; name=\"model\"" -> model. Quoted or a token; backslash escapes as browsers write
// them. `present` tells an empty value from none.
std::string parameter(std::string_view value, std::string_view name, bool &present) {
  present = false;
  size_t at = value.find(';');
  while (at < value.size()) {
    size_t from = value.find_first_not_of("; \t", at);
    if (from == std::string_view::npos) return {};
    const size_t equals = value.find_first_of("=;", from);
    if (equals == std::string_view::npos) return {};
    if (value[equals] == ';') {
      at = equals;
      continue;
    }
    const std::string_view key = trim(value.substr(from, equals - from));
    std::string text;
    size_t end = equals + 1;
    while (end < value.size() && (value[end] == ' ' || value[end] == '\t')) ++end;
    if (end < value.size() && value[end] == '"') {
      for (++end; end < value.size() && value[end] != '"'; ++end) {
        if (value[end] == '\\' && end + 1 < value.size()) ++end;
        text += value[end];
      }
      if (end < value.size()) ++end;
      end = std::min(value.find(';', end), value.size());
    } else {
      const size_t stop = std::min(value.find(';', end), value.size());
      text = trim(value.substr(end, stop - end));
      end = stop;
    }
    if (iequals(key, name)) {
      present = true;
      return text;
    }
    at = end;
  }
  return {};
}

// The Content-Disposition among a part's header lines.
std::string_view disposition(std::string_view header) {
  while (!header.empty()) {
    const size_t end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 2, header.size()));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && iequals(trim(line.substr(0, colon)), "content-disposition")) return trim(line.substr(colon + 1));
  }
  return {};
}

}  // namespace

bool is_form(std::string_view content_type) {
  return iequals(trim(content_type.substr(0, content_type.find(';'))), "multipart/form-data");
}

std::optional<scan_error> scan_form(std::string_view content_type, std::string_view body, request_scan &out) {
  out = {};
  const auto wrong = [&](std::string what, size_t offset) {
    what += " (byte " + std::to_string(offset) + ")";
    return scan_error{std::move(what), offset};
  };
  bool present = false;
  const std::string boundary = parameter(content_type, "boundary", present);
  if (boundary.empty() || boundary.size() > max_boundary)
    return scan_error{"the Content-Type must name a boundary of 1 to 70 bytes", 0};

  const std::string delimiter = "\r\n--" + boundary;
  const std::string_view first = std::string_view(delimiter).substr(2);
  size_t at = 0;
  if (!body.starts_with(first)) {
    at = body.find(delimiter);
    if (at == std::string_view::npos) return wrong("the body does not hold the boundary that its Content-Type names", 0);
    at += 2;
  }
  bool have_model = false, have_stream = false;
  for (size_t parts = 0;; ++parts) {
    at += first.size();
    if (body.substr(at, 2) == "--") break;
    if (parts == max_parts) return wrong("the form has more than " + std::to_string(max_parts) + " parts", at);
    size_t line = at;
    while (line < body.size() && (body[line] == ' ' || body[line] == '\t')) ++line;
    if (body.substr(line, 2) != "\r\n") return wrong("a boundary line of the form does not end", at);
    // A part without header fields starts with the blank line at once.
    const std::string_view head_room = body.substr(line, max_part_header + 4);
    const size_t blank = head_room.find("\r\n\r\n");
    if (blank == std::string_view::npos) return wrong("a part's header does not end within 4096 bytes", line);
    const std::string_view header = blank == 0 ? std::string_view() : head_room.substr(2, blank - 2);
    const size_t content = line + blank + 4;
    // An empty content shares its CRLF with the header's end.
    const size_t end = body.find(delimiter, content - 2);
    if (end == std::string_view::npos) return wrong("a part of the form does not end with the boundary", content);
    const std::string_view value = end < content ? std::string_view() : body.substr(content, end - content);
    const std::string_view said = disposition(header);
    at = end + 2;
    if (!iequals(trim(said.substr(0, said.find(';'))), "form-data")) continue;
    bool file = false;
    parameter(said, "filename", file);
    const std::string name = parameter(said, "name", present);
    if (name == "model") {
      if (have_model) return wrong("the field \"model\" occurs twice", content);
      have_model = true;
      if (file || value.empty() || value.size() > request_scanner::max_model_bytes)
        return wrong("\"model\" must be a text of 1 to 256 bytes", content);
      out.model.assign(value);
      out.model_at = {content, value.size()};
    } else if (name == "stream") {
      if (have_stream) return wrong("the field \"stream\" occurs twice", content);
      have_stream = true;
      out.stream = !file && value == "true";
    }
  }
  if (!have_model) return scan_error{"\"model\" is missing: the form must have a field of that name, a text of 1 to 256 bytes", 0};
  return std::nullopt;
}

}  // namespace hive::gateway
