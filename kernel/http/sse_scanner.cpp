#include "http/sse_scanner.hpp"

#include <cstring>
#include <utility>

#include "http/event_json.hpp"

namespace hive::http {

namespace {

constexpr std::string_view bom = "\xEF\xBB\xBF";
constexpr size_t kept_error = 4096;
constexpr size_t most_kept_shape = 1024;  // it stays as long as the stream does

}  // namespace

void sse_scanner::feed(std::string_view bytes) {
  while (bom_ < bom.size() && !bytes.empty()) {
    if (bytes.front() != bom[bom_]) {
      partial_.assign(bom.substr(0, bom_));  // it only looked like one
      bom_ = bom.size();
    } else {
      ++bom_;
      bytes.remove_prefix(1);
    }
  }
  const char *p = bytes.data();
  const char *const last = p + bytes.size();
  const char *lf = nullptr;  // the next LF at or after p, found once
  while (p < last) {
    if (std::exchange(skip_lf_, false) && *p == '\n') {
      ++p;
      continue;
    }
    if (lf == nullptr || lf < p) {
      lf = static_cast<const char *>(std::memchr(p, '\n', static_cast<size_t>(last - p)));
      if (lf == nullptr) lf = last;
    }
    const char *stop = static_cast<const char *>(std::memchr(p, '\r', static_cast<size_t>(lf - p)));
    if (stop == nullptr) stop = lf;
    const std::string_view piece(p, static_cast<size_t>(stop - p));
    if (!overlong_ && partial_.size() + piece.size() > max_line) {
      // What cannot be read may have been content: it commits, so that no retry repeats it.
      overlong_ = facts_.unread = facts_.content = true;
      std::string().swap(partial_);
    }
    if (stop == last) {
      if (!overlong_) partial_ += piece;
      return;
    }
    if (!overlong_) {
      if (partial_.empty()) {
        line(piece);
      } else {
        partial_ += piece;
        line(partial_);
      }
    }
    partial_.clear();
    overlong_ = false;
    skip_lf_ = *stop == '\r';
    p = stop + 1;
  }
}

void sse_scanner::end() {
  if (!partial_.empty() && !overlong_) line(partial_);
  std::string().swap(partial_);
  overlong_ = false;
}

void sse_scanner::line(std::string_view text) {
  if (text.empty()) {
    error_event_ = false;
    return;
  }
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "data") {
    data(value);
  } else if (name == "event" && value == "error") {
    error_event_ = facts_.error = true;
  } else if (name == "error") {
    facts_.error = true;
    if (facts_.error_text.empty()) facts_.error_text = value.substr(0, kept_error);
  } else if (!name.empty() && name != "event" && name != "id" && name != "retry") {
    facts_.unread = true;  // no field of an event stream: whatever this is, it is not judged
  }
}

// An event with the very bytes of the last one around another plain text is the same JSON: only that text is news.
bool sse_scanner::like_last(std::string_view json) {
  if (shape_.empty() || json.size() < shape_.size()) return false;
  const size_t text = json.size() - shape_.size(), behind = shape_.size() - text_at_;
  if (std::memcmp(json.data(), shape_.data(), text_at_) != 0) return false;
  if (std::memcmp(json.data() + text_at_ + text, shape_.data() + text_at_, behind) != 0) return false;
  if (!plain_text(json.substr(text_at_, text))) return false;
  if (text == 0) return true;
  facts_.content = true;
  facts_.delta_bytes += text;
  facts_.delta_pieces += 1;
  return true;
}

void sse_scanner::data(std::string_view json) {
  ++facts_.events;
  while (!json.empty() && (json.back() == ' ' || json.back() == '\t')) json.remove_suffix(1);
  if (json == "[DONE]") {
    facts_.done = true;
    return;
  }
  bool failed = error_event_;
  if (!failed && like_last(json)) return;
  lone_text lone;
  if (scan_event(json, facts_, lone) == scan_result::not_read) failed = parse_event(json, facts_) || failed;
  if (lone.size > 0 && json.size() - lone.size <= most_kept_shape) {
    shape_.assign(json.substr(0, lone.offset));
    shape_.append(json.substr(lone.offset + lone.size));
    text_at_ = lone.offset;
  }
  if (!failed) return;
  facts_.error = true;
  if (facts_.error_text.empty()) facts_.error_text = json.substr(0, kept_error);
}

}  // namespace hive::http
