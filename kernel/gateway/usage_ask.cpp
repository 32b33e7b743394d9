#include "gateway/usage_ask.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/counted_body.hpp"

namespace hive::gateway {

namespace {

constexpr std::string_view name = "\"usage\"";

// Where text first has a usage that is an object, which every usage event has; vLLM writes "usage":null in all others.
size_t find_usage_object(std::string_view text) {
  for (size_t from = 0;;) {
    const void *found = memmem(text.data() + from, text.size() - from, name.data(), name.size());
    if (found == nullptr) return std::string_view::npos;
    const size_t at = static_cast<size_t>(static_cast<const char *>(found) - text.data());
    from = at + name.size();
    size_t value = text.find_first_not_of(" \t", from);
    if (value < text.size() && text[value] == ':') value = text.find_first_not_of(" \t", value + 1);
    else continue;
    if (value < text.size() && text[value] == '{') return at;
  }
}

// The first LF or CR from `at`, or the end of the text.
size_t line_end(std::string_view text, size_t at) {
  const auto find = [&](char c, size_t end) {
    const void *found = std::memchr(text.data() + at, c, end - at);
    return found == nullptr ? end : static_cast<size_t>(static_cast<const char *>(found) - text.data());
  };
  return find('\r', find('\n', text.size()));
}

// An event with one line of data, a JSON object with usage and without choices. An engine that sends usage along with content
// keeps its event; one with an error is not for us to judge.
bool is_usage_event(std::string_view event) {
  if (find_usage_object(event) == std::string_view::npos) return false;
  std::string_view data;
  while (!event.empty()) {
    const size_t end = line_end(event, 0);
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (!line.starts_with("data:")) continue;
    if (!data.empty()) return false;
    data = line.substr(5);
  }
  if (data.empty()) return false;
  namespace dom = simdjson::dom;
  thread_local dom::parser parser;
  dom::object o, usage;
  dom::element other;
  if (parser.parse(data.data(), data.size(), true).get_object().get(o) != simdjson::SUCCESS) return false;
  if (o["usage"].get_object().get(usage) != simdjson::SUCCESS) return false;
  if (o["error"].get(other) == simdjson::SUCCESS && !other.is_null()) return false;
  if (o["choices"].get(other) != simdjson::SUCCESS || other.is_null()) return true;
  dom::array choices;
  return other.get_array().get(choices) == simdjson::SUCCESS && choices.size() == 0;
}

}  // namespace

http::body_ptr with_usage_asked(std::string_view body, const request_scan &scan, byte_share *of) {
  if (!scan.stream || scan.include_usage || scan.include_usage_given) return nullptr;
  std::string_view what;
  size_t at = 0;
  if (!scan.stream_options_given) {
    what = "\"stream_options\":{\"include_usage\":true},";
    at = scan.object_at + 1;  // the object is not empty: it holds a model
  } else if (scan.stream_options_at.present()) {
    at = scan.stream_options_at.offset + 1;
    const size_t first = body.find_first_not_of(" \t\r\n", at);
    if (first == std::string_view::npos) return nullptr;
    what = body[first] == '}' ? "\"include_usage\":true" : "\"include_usage\":true,";
  } else {
    return nullptr;
  }
  std::string asked;
  asked.reserve(body.size() + what.size() + http::body_padding);
  asked.append(body.substr(0, at)).append(what).append(body.substr(at));
  return http::counted(of, std::move(asked));
}

std::string_view usage_filter::pass(std::string_view bytes, size_t &kept_back) {
  out_.clear();
  // Whole events before the first of interest, which is none in the usual read, go as they are.
  if (held_.empty() && !passing_ && line_empty_ && after_cr_ == after_cr::none && !skip_lf_ &&
      std::memchr(bytes.data(), '\r', bytes.size()) == nullptr) {
    const size_t before = std::min(find_usage_object(bytes), bytes.size());
    const size_t blank = bytes.substr(0, before).rfind("\n\n");
    const size_t whole = blank == std::string_view::npos ? 0 : blank + 2;
    if (whole == bytes.size()) return bytes;
    out_.append(bytes.substr(0, whole));
    bytes.remove_prefix(whole);
  }
  size_t from = 0;  // of what is not in held_ or out_ yet
  const auto take = [&](size_t end) {
    (passing_ ? out_ : held_).append(bytes.substr(from, end - from));
    from = end;
  };
  size_t at = 0;
  while (at < bytes.size()) {
    if (const after_cr before = std::exchange(after_cr_, after_cr::none); before != after_cr::none && bytes[at] == '\n') {
      if (before == after_cr::pass) out_ += '\n';
      else ++kept_back;
      from = ++at;
      continue;
    }
    if (std::exchange(skip_lf_, false) && bytes[at] == '\n') {
      ++at;
      continue;
    }
    const size_t end = line_end(bytes, at);
    if (end != at) line_empty_ = false;
    if (end == bytes.size()) break;
    at = end + 1;
    const bool cr = bytes[end] == '\r';
    if (!std::exchange(line_empty_, true)) {
      skip_lf_ = cr;
      continue;
    }
    // A blank line: the event is over.
    take(at);
    const size_t before = kept_back;
    if (!std::exchange(passing_, false)) judge(kept_back);
    if (cr) after_cr_ = kept_back == before ? after_cr::pass : after_cr::drop;
  }
  take(bytes.size());
  if (held_.size() > max_event) {
    passing_ = true;
    out_ += held_;
    held_.clear();
  }
  return out_;
}

std::string_view usage_filter::rest(size_t &kept_back) {
  out_.clear();
  judge(kept_back);
  return out_;
}

void usage_filter::judge(size_t &kept_back) {
  if (is_usage_event(held_)) kept_back += held_.size();
  else out_ += held_;
  held_.clear();
}

}  // namespace hive::gateway
