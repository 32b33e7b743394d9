#include "agent/page_fetch.hpp"

#include <utility>

namespace hive::agent {

page_fetch::page_fetch(http::client &client, const hive_page &page, uint64_t limit_ns, size_t most_bytes, done_fn done)
    : most_bytes_(most_bytes), done_(std::move(done)) {
  http::call_request request;
  request.method.assign(page.method.ptr, page.method.len);
  request.target.assign(page.path.ptr, page.path.len);
  request.fields = {{"Accept", "*/*"}};
  request.deadline_ns = request.first_byte_deadline_ns = now_ns() + limit_ns;
  call_ = client.start(std::move(request), *this);
}

void page_fetch::on_head(const http::response_head &head) {
  answer_.status = static_cast<uint32_t>(head.status);
  if (const http::field *server = http::find_field(head.fields, "server")) answer_.server = server->value;
}

void page_fetch::on_data(std::string_view bytes) {
  if (cut_) return;
  std::string &body = answer_.body;
  const size_t room = most_bytes_ - body.size();
  body.append(bytes.substr(0, room));
  if (bytes.size() <= room) return;
  cut_ = true;
  body.resize(body.rfind('\n') + 1);
}

void page_fetch::on_failed(const http::call_failure &failure) {
  answer_ = {0, {}, {}, failure.message, failure.timed_out};
  finish();
}

void page_fetch::finish() {
  const auto done = std::move(done_);
  done(std::move(answer_));
}

}  // namespace hive::agent
