// One call of a provider under way. Internal to providers/. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "providers/calls.hpp"
#include "providers/event_reader.hpp"
#include "providers/passed_stream.hpp"
#include "providers/translate.hpp"

namespace hive::providers {

class running_call final : public link::router_stream, private http::call_events {
 public:
  running_call(const provider &, const call_order &, bool tools, bool include_usage, const call_limits &, call_metrics &, link::stream_events &);
  ~running_call() override;
  void start(http::client &, std::string body, const call_order &);

  void consumed(size_t bytes) override;
  void cancel(link::cause) override;

 private:
  enum class kind { none, refusal, whole, stream };

  // http::call_events
  void on_head(const http::response_head &) override;
  void on_data(std::string_view) override;
  void on_end() override;
  void on_failed(const http::call_failure &) override;

  bool translated() const { return spoken_ != asked_; }
  bool tell_head(int status, std::span<const http::field>, bool streaming);
  bool pass(std::string_view bytes);         // false: this call is gone
  void pass_as_it_is(std::string_view bytes);
  void pass_events(std::string_view bytes);
  void finish_stream();
  void finish_whole();
  void finish_refusal();
  void hold(std::string_view bytes);
  // The last word: the call may be gone afterwards. `words` are for the client, `details` for the log.
  void fail_with(link::cause, std::string words, std::string_view details, uint64_t retry_after_ms = 0);
  std::string named(std::string_view what) const { return "provider " + std::string(from_.engine()) + " " + std::string(what); }
  void warn(std::string_view what, std::string_view details) const;
  answer_context context() const;
  template <class F>
  bool tell(F &&f);                          // false when this call was destroyed by it

  const provider &from_;
  const api asked_, spoken_;
  const std::string model_, label_, request_id_;
  const bool tools_, include_usage_;
  const call_limits limits_;
  call_metrics &metrics_;
  link::stream_events &events_;
  const uint64_t started_ns_;
  bool *destroyed_ = nullptr;
  std::unique_ptr<http::call> call_;

  kind kind_ = kind::none;
  int status_ = 0;
  std::string content_type_, retry_after_;
  bool encoded_ = false;
  std::string held_;
  byte_claim claim_;
  size_t owed_ = 0;                          // passed on, no credit for it yet
  bool paused_ = false;
  event_reader reader_;
  std::optional<passed_stream> passed_;      // of the client's own API
  std::unique_ptr<stream_translator> translator_;
};

}  // namespace hive::providers
