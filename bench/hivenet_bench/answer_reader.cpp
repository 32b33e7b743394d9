#include "hivenet_bench/answer_reader.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace hive::bench {

namespace {

constexpr size_t most_head_bytes = 64 * 1024;

bool begins_with(std::string_view line, std::string_view name) {
  return line.size() >= name.size() && ::strncasecmp(line.data(), name.data(), name.size()) == 0;
}

std::string_view value_of(std::string_view line, std::string_view name) {
  line.remove_prefix(name.size());
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
  return line;
}

}  // namespace

void answer_reader::reset() {
  state_ = state::head;
  status_ = 0;
  keep_alive_ = true;
  line_empty_ = false;
  left_ = body_bytes_ = events_ = 0;
  held_.clear();
  tail_size_ = 0;
  in_stamp_ = false;
  stamps_.clear();
}

void answer_reader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t used = 0;
    switch (state_) {
      case state::head: used = take_head(bytes); break;
      case state::sized_body:
      case state::chunk_data:
        used = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
        body(bytes.substr(0, used));
        left_ -= used;
        if (left_ == 0) state_ = state_ == state::sized_body ? state::done : state::chunk_end;
        break;
      case state::chunk_size:
      case state::chunk_end:
      case state::trailer: used = take_line(bytes); break;
      case state::done: state_ = state::broken; return;
      case state::broken: return;
    }
    bytes.remove_prefix(used);
  }
}

size_t answer_reader::take_head(std::string_view bytes) {
  const size_t before = held_.size();
  held_.append(bytes);
  const size_t end = held_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    if (held_.size() > most_head_bytes) state_ = state::broken;
    return bytes.size();
  }
  held_.resize(end + 2);
  parse_head();
  held_.clear();
  return end + 4 - before;
}

void answer_reader::parse_head() {
  const std::string_view head = held_;
  if (head.size() < 14 || !head.starts_with("HTTP/1.") || std::from_chars(head.data() + 9, head.data() + 12, status_).ec != std::errc()) {
    state_ = state::broken;
    return;
  }
  bool chunked = false, sized = false;
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string_view line = head.substr(at, end - at);
    at = end + 2;
    if (begins_with(line, "content-length:")) {
      const std::string_view v = value_of(line, "content-length:");
      sized = std::from_chars(v.data(), v.data() + v.size(), left_).ec == std::errc();
    } else if (begins_with(line, "transfer-encoding:")) {
      chunked = begins_with(value_of(line, "transfer-encoding:"), "chunked");
    } else if (begins_with(line, "connection:")) {
      keep_alive_ = !begins_with(value_of(line, "connection:"), "close");
    }
  }
  if (chunked) state_ = state::chunk_size;
  else if (sized) state_ = left_ == 0 ? state::done : state::sized_body;
  else state_ = state::broken;  // a body to the end of the connection: none of the servers measured here sends one
}

size_t answer_reader::take_line(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos) {
    held_.append(bytes);
    if (held_.size() > most_head_bytes) state_ = state::broken;
    return bytes.size();
  }
  held_.append(bytes.substr(0, end));
  if (!held_.empty() && held_.back() == '\r') held_.pop_back();
  if (state_ == state::chunk_size) {
    if (std::from_chars(held_.data(), held_.data() + held_.size(), left_, 16).ec != std::errc()) state_ = state::broken;
    else state_ = left_ == 0 ? state::trailer : state::chunk_data;
  } else if (state_ == state::chunk_end) {
    state_ = held_.empty() ? state::chunk_size : state::broken;
  } else if (held_.empty()) {
    state_ = state::done;
  }
  held_.clear();
  return end + 1;
}

// Nothing else of the simulator's streams holds an @.
void answer_reader::find_stamps(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!in_stamp_) {
      i = bytes.find('@', i);
      if (i == std::string_view::npos) return;
      in_stamp_ = true;
      stamp_ = 0;
    } else if (bytes[i] >= '0' && bytes[i] <= '9') {
      stamp_ = stamp_ * 10 + static_cast<uint64_t>(bytes[i] - '0');
    } else {
      in_stamp_ = false;
      stamps_.push_back(stamp_);
    }
  }
}

void answer_reader::body(std::string_view bytes) {
  body_bytes_ += bytes.size();
  if (stamped_) find_stamps(bytes);
  for (const char *p = bytes.data(), *end = p + bytes.size(); p != end;) {
    const char *nl = static_cast<const char *>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
    const char *stop = nl == nullptr ? end : nl;
    if (line_empty_) line_empty_ = stop == p || (stop - p == 1 && *p == '\r');
    if (nl == nullptr) break;
    events_ += line_empty_;
    line_empty_ = true;
    p = nl + 1;
  }
  if (bytes.size() >= sizeof tail_) {
    std::memcpy(tail_, bytes.data() + bytes.size() - sizeof tail_, sizeof tail_);
    tail_size_ = sizeof tail_;
    return;
  }
  const size_t keep = std::min(tail_size_, sizeof tail_ - bytes.size());
  std::memmove(tail_, tail_ + tail_size_ - keep, keep);
  std::memcpy(tail_ + keep, bytes.data(), bytes.size());
  tail_size_ = keep + bytes.size();
}

bool answer_reader::ended_with_done() const {
  const std::string_view tail(tail_, tail_size_);
  return tail.ends_with("data: [DONE]\n\n");
}

}  // namespace hive::bench
