#include "engine_sim/generation.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "engine_sim/json_read.hpp"

namespace hive::sim {

namespace json = boost::json;

generation::~generation() { sim_.model_.leave(*this); }

void generation::on_body(http::body_ptr body) {
  faulty_ = sim_.take_request(exchange_, *body);
  boost::system::error_code error;
  const json::value parsed = json::parse(*body, error);
  if (error || !parsed.is_object())
    return reply(exchange_, 400, "application/json",
                 R"({"error":{"message":"invalid JSON","type":"BadRequestError","param":null,"code":400}})");
  const json::object &request = parsed.as_object();
  stream_ = number_of(request, "stream", 0) != 0;
  if (faulty_ && answer_faulty(exchange_, *faulty_)) return;
  const std::string model = text_of(request, "model", sim_.options_.models.front());
  if (!sim_.knows(model)) return refuse_model(exchange_);
  const int64_t wanted = number_of(request, "max_completion_tokens",
                                   number_of(request, "max_output_tokens", number_of(request, "max_tokens", sim_.options_.default_tokens)));
  if (wanted <= 0)
    return reply(exchange_, 400, "application/json",
                 R"({"error":{"message":"max_tokens must be at least 1","type":"BadRequestError","param":"max_tokens","code":400}})");
  wanted_tokens = static_cast<uint32_t>(std::min<int64_t>(wanted, 1'000'000));
  prompt_tokens = body->size() / 4 + 1;
  if (sim_.options_.model.prefix_caching)
    for (const char *part : {"messages", "prompt", "input"})
      if (const json::value *text = request.if_contains(part)) prompt += json::serialize(*text);

  generation_facts facts;
  facts.id = std::to_string(sim_.chats_);
  facts.model = quoted(model);
  facts.word = sim_.options_.word;
  facts.prompt_tokens = prompt_tokens;
  facts.output_tokens = wanted_tokens;
  facts.tool = wanted_tool(request);
  if (const json::value *o = request.if_contains("stream_options"); o != nullptr && o->is_object())
    facts.include_usage = number_of(o->as_object(), "include_usage", 0) != 0;
  wire_ = make_(std::move(facts));
  if (stream_) begin_stream();
  if (faulty_ && faulty_->role_only && stream_) return;
  sim_.model_.admit(*this);
}

void generation::begin_stream() {
  const http::field type{"Content-Type", "text/event-stream; charset=utf-8"};
  exchange_.begin({200, {&type, 1}});
  wire_->begin(out_);
  flush();
}

void generation::flush() {
  exchange_.write(out_);
  out_.clear();
}

void generation::on_body_failed(http::body_error) { reply(exchange_, 400, "application/json", R"({"detail":"bad body"})"); }
void generation::on_gone(http::gone) { ++sim_.gone_; }

void generation::on_tokens(uint32_t count, bool last) {
  if (sim_.options_.model.prefix_caching) wire_->cached(cached_tokens);
  if (!stream_) {
    if (!last) return;
    ++sim_.served_;
    sim_.model_.leave(*this);
    return reply(exchange_, 200, "application/json", wire_->whole());
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (faulty_ && faulty_->cut_after >= 0 && events_ >= faulty_->cut_after) {
      flush();
      return exchange_.abort();
    }
    if (faulty_ && faulty_->error_after >= 0 && events_ >= faulty_->error_after) {
      wire_->error("simulated error", out_);
      flush();
      return exchange_.end();
    }
    if (faulty_ && faulty_->hold_after >= 0 && events_ >= faulty_->hold_after) {
      flush();
      return sim_.model_.leave(*this);
    }
    ++events_;
    if (sim_.options_.stamp) out_ += ": @" + std::to_string(now_ns()) + "\n";
    wire_->token(told_++, out_);
    flush();
  }
  if (!last) return;
  wire_->finish(out_);
  flush();
  ++sim_.served_;
  sim_.model_.leave(*this);
  exchange_.end();
}

}  // namespace hive::sim
