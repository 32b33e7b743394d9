#include "providers/passed_stream.hpp"

#include "base/text.hpp"
#include "providers/json_read.hpp"
#include "providers/refusal.hpp"

namespace hive::providers {

namespace {

bool holds(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// The last event of a response, if nothing failed.
bool ends_response(std::string_view type) { return type == "response.completed" || type == "response.incomplete" || type == "response.cancelled"; }

}  // namespace

void passed_stream::feed(std::string_view bytes, std::string &out) {
  const auto take = [this](std::string_view data) {
    judge(data);
    return status();
  };
  while (!bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') {  // of a line that has ended already
      after_cr_ = false;
      (held_.empty() ? out : held_) += '\n';
      if (!loose_) (void)reader_.feed("\n", take);
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    const bool line_over = end != std::string_view::npos, empty_line = end == 0 && at_line_start_;
    const std::string_view piece = bytes.substr(0, line_over ? end + 1 : bytes.size());
    at_line_start_ = line_over;
    after_cr_ = line_over && bytes[end] == '\r';
    bytes.remove_prefix(piece.size());
    if (loose_) {
      out += piece;
      loose_ = !empty_line;
      continue;
    }
    held_ += piece;
    const status read = reader_.feed(piece, take);
    if (empty_line) {
      flush(out);
    } else if (!read || held_.size() > most_) {
      flush(out);
      reader_ = event_reader();
      answered_ = unread_ = loose_ = true;
    }
  }
}

void passed_stream::end(std::string &out) {
  if (!loose_)
    (void)reader_.end([this](std::string_view data) {
      judge(data);
      return status();
    });
  flush(out);
}

void passed_stream::flush(std::string &out) {
  if (secret_) hide_key(held_, key_);
  out += held_;
  held_.clear();
  secret_ = false;
}

bool passed_stream::named_error() const {
  for (size_t at = held_.find("event:"); at != std::string::npos; at = held_.find("event:", at + 1)) {
    if (at > 0 && held_[at - 1] != '\n' && held_[at - 1] != '\r') continue;
    const std::string_view rest = std::string_view(held_).substr(at + 6);
    if (trim(rest.substr(0, rest.find_first_of("\r\n"))) == "error") return true;
  }
  return false;
}

// Reading costs; most events of an answer that has begun can be nothing but more of it.
bool passed_stream::worth_reading(std::string_view data) const {
  if (!answered_ || holds(held_, "error") || (!key_.empty() && holds(held_, key_))) return true;
  if (spoken_ == api::messages) return holds(data, "message_stop");
  return spoken_ == api::responses &&
         (holds(data, "response.completed") || holds(data, "response.incomplete") || holds(data, "response.cancelled") || holds(data, "response.failed"));
}

void passed_stream::judge(std::string_view data) {
  unread_ = false;
  if (spoken_ != api::messages && trim(data) == "[DONE]") {
    ended_ = true;
    return;
  }
  if (!worth_reading(data)) return;
  const auto read = read_object(data, "an event");
  const std::string type = read ? std::string(text_in(*read, "type")) : std::string();
  const bool error = named_error() || type == "error" || type == "response.failed" || (read && member(*read, "error") != nullptr);
  secret_ = error || !read;
  if (error) ended_ = true;
  if (secret_) return;
  if (spoken_ == api::messages) {
    answered_ = answered_ || type == "message_start";
    ended_ = ended_ || type == "message_stop";
  } else if (spoken_ == api::responses) {
    answered_ = answered_ || type.starts_with("response.");
    ended_ = ended_ || ends_response(type);
  } else {
    const json::array *choices = array_in(*read, "choices");
    answered_ = answered_ || (choices != nullptr && !choices->empty());
  }
}

}  // namespace hive::providers
