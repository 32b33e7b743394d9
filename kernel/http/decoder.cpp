#include "http/decoder.hpp"

#include <algorithm>
#include <cstring>

#include "base/hex_digit.hpp"

namespace hive::http {

void body_decoder::start_length(uint64_t length) {
  *this = {};
  left_ = length;
  state_ = length == 0 ? state::done : state::more;
}

void body_decoder::start_chunked(uint64_t payload_limit) {
  *this = {};
  kind_ = kind::chunked;
  state_ = state::more;
  budget_ = payload_limit;
}

void body_decoder::start_until_close(uint64_t payload_limit) {
  *this = {};
  kind_ = kind::until_close;
  state_ = state::more;
  budget_ = payload_limit;
}

void body_decoder::fail(state s, const char *what) {
  state_ = s;
  what_ = what;
}

void body_decoder::end_of_input() {
  if (state_ != state::more) return;
  if (kind_ == kind::until_close) {
    state_ = state::done;
  } else {
    fail(state::malformed, "the connection ended inside the body");
  }
}

body_decoder::step body_decoder::decode(std::span<char> bytes) {
  step out;
  if (state_ != state::more) return out;
  if (kind_ == kind::length) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
    left_ -= n;
    if (left_ == 0) state_ = state::done;
    return {{bytes.data(), n}, n};
  }
  if (kind_ == kind::until_close) {
    if (bytes.size() > budget_) {
      fail(state::too_large, "the body exceeds its limit");
      return out;
    }
    budget_ -= bytes.size();
    return {{bytes.data(), bytes.size()}, bytes.size()};
  }
  char *start = nullptr;
  size_t length = 0;
  size_t i = 0;
  while (i < bytes.size() && state_ == state::more) {
    if (at_ != at::data) {
      on_chunk_byte(static_cast<unsigned char>(bytes[i++]));
      continue;
    }
    const size_t n = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() - i));
    if (start == nullptr) {
      start = bytes.data() + i;
    } else {
      std::memmove(start + length, bytes.data() + i, n);
    }
    length += n;
    i += n;
    left_ -= n;
    if (left_ == 0) at_ = at::data_cr;
  }
  out.payload = {start, length};
  out.consumed = i;
  return out;
}

void body_decoder::on_chunk_byte(unsigned char c) {
  switch (at_) {
    case at::size_first:
    case at::size: {
      const int digit = hex_value(static_cast<char>(c));
      if (digit >= 0) {
        if (++head_bytes_ > 16) return fail(state::malformed, "a chunk size has more than 16 digits");
        left_ = left_ * 16 + static_cast<uint64_t>(digit);
        at_ = at::size;
      } else if (at_ == at::size && c == ';') {
        at_ = at::extension;
      } else if (at_ == at::size && c == '\r') {
        at_ = at::size_lf;
      } else {
        fail(state::malformed, "a chunk size is not a hexadecimal number followed by CRLF");
      }
      return;
    }
    case at::extension:
      if (c == '\r') {
        at_ = at::size_lf;
      } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
        fail(state::malformed, "a chunk extension holds a control character");
      } else if (++head_bytes_ > max_chunk_head || ++extension_bytes_ > max_extensions) {
        fail(state::malformed, "chunk extensions are too long");
      }
      return;
    case at::size_lf:
      if (c != '\n') return fail(state::malformed, "a chunk head does not end with CRLF");
      head_bytes_ = 0;
      if (left_ == 0) {
        at_ = at::last_cr;
      } else if (left_ > budget_) {
        fail(state::too_large, "the body exceeds its limit");
      } else {
        budget_ -= left_;
        at_ = at::data;
      }
      return;
    case at::data_cr:
      if (c != '\r') return fail(state::malformed, "a chunk is longer than its size says");
      at_ = at::data_lf;
      return;
    case at::data_lf:
      if (c != '\n') return fail(state::malformed, "a chunk does not end with CRLF");
      at_ = at::size_first;
      return;
    case at::last_cr:
      if (c != '\r') return fail(state::malformed, "trailer fields are not accepted");
      at_ = at::last_lf;
      return;
    case at::last_lf:
      if (c != '\n') return fail(state::malformed, "the last chunk does not end with CRLF");
      state_ = state::done;
      return;
    case at::data:
      return;
  }
}

}  // namespace hive::http
