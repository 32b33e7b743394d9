#include "observe/exposition.hpp"

#include <simdjson.h>

#include <cassert>
#include <charconv>
#include <cmath>

namespace hive::observe {
namespace {

constexpr size_t chunk = 64 * 1024;
constexpr size_t max_label = 256;

void append_escaped(std::string &out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quotes) out += "\\\"";
    else out += c;
  }
}

}  // namespace

std::string full_name(std::string_view short_name) {
  if (short_name.starts_with("http_") || short_name.starts_with("process_") || short_name.starts_with("hivenet_router_"))
    return std::string(short_name);
  return "hivenet_router_" + std::string(short_name);
}

std::string_view clean_label(std::string_view value) {
  if (value.size() > max_label || !simdjson::validate_utf8(value.data(), value.size())) return "__invalid__";
  return value;
}

std::string label_text(std::span<const std::string_view> names, std::span<const std::string_view> values) {
  assert(names.size() == values.size());
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ',';
    out += names[i];
    out += "=\"";
    append_escaped(out, clean_label(values[i]), true);
    out += '"';
  }
  return out;
}

exposition::exposition(text_sink &sink) : sink_(sink) { buffer_.reserve(chunk + 4096); }
exposition::~exposition() { flush(); }

void exposition::flush() {
  if (!buffer_.empty()) sink_.write(buffer_);
  buffer_.clear();
}

void exposition::room() {
  if (buffer_.size() >= chunk) flush();
}

bool exposition::family(metric_kind kind, std::string_view short_name, std::string_view help) {
  name_ = full_name(short_name);
  skip_ = !seen_.insert(name_).second;
  if (skip_) return false;
  room();
  buffer_ += "# HELP ";
  buffer_ += name_;
  buffer_ += ' ';
  append_escaped(buffer_, help, false);
  buffer_ += "\n# TYPE ";
  buffer_ += name_;
  buffer_ += kind == metric_kind::counter ? " counter\n" : kind == metric_kind::gauge ? " gauge\n" : " histogram\n";
  return true;
}

void exposition::begin(std::string_view suffix, std::string_view labels, std::string_view bound) {
  buffer_ += name_;
  buffer_ += suffix;
  if (!labels.empty() || !bound.empty()) {
    buffer_ += '{';
    buffer_ += labels;
    if (!bound.empty()) {
      if (!labels.empty()) buffer_ += ',';
      buffer_ += "le=\"";
      buffer_ += bound;
      buffer_ += '"';
    }
    buffer_ += '}';
  }
  buffer_ += ' ';
}

void exposition::number(double value) {
  if (std::isnan(value)) buffer_ += "NaN";
  else if (std::isinf(value)) buffer_ += value > 0 ? "+Inf" : "-Inf";
  else {
    char text[32];
    buffer_.append(text, static_cast<size_t>(std::to_chars(text, text + sizeof text, value).ptr - text));
  }
}

void exposition::series(std::string_view labels, double value) {
  if (skip_) return;
  ++written_;
  room();
  begin({}, labels, {});
  number(value);
  buffer_ += '\n';
}

void exposition::series(std::string_view labels, uint64_t value) {
  if (skip_) return;
  ++written_;
  room();
  begin({}, labels, {});
  char text[24];
  buffer_.append(text, static_cast<size_t>(std::to_chars(text, text + sizeof text, value).ptr - text));
  buffer_ += '\n';
}

void exposition::histogram(std::string_view labels, std::span<const double> bounds, std::span<const uint64_t> cumulative,
                           double sum, uint64_t count) {
  assert(bounds.size() == cumulative.size());
  if (skip_) return;
  ++written_;
  for (size_t i = 0; i < bounds.size(); ++i) {
    room();
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, bounds[i]).ptr;
    begin("_bucket", labels, std::string_view(text, static_cast<size_t>(end - text)));
    buffer_ += std::to_string(cumulative[i]);
    buffer_ += '\n';
  }
  begin("_bucket", labels, "+Inf");
  buffer_ += std::to_string(count);
  buffer_ += '\n';
  begin("_sum", labels, {});
  number(sum);
  buffer_ += '\n';
  begin("_count", labels, {});
  buffer_ += std::to_string(count);
  buffer_ += '\n';
}

void exposition::raw(std::string_view text, std::span<const std::string> names) {
  for (const std::string &name : names) seen_.insert(name);
  skip_ = true;
  flush();
  while (!text.empty()) {
    sink_.write(text.substr(0, chunk));
    text.remove_prefix(std::min(text.size(), chunk));
  }
}

}  // namespace hive::observe
