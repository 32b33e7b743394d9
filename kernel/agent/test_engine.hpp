// An engine for tests of this room: pages that the test sets, served on a loopback port, and the adapter that reads them,
// linked in statically. The pages may be set from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "agent/engine.hpp"
#include "hive/sdk/openai_engine.hpp"
#include "http/client_bed.hpp"

namespace hive::agent::test {

// As openai_engine, with time-outs for tests.
class quick_adapter {
 public:
  static constexpr std::string_view id = "quick";
  static constexpr std::string_view summary = "for tests";
  quick_adapter() {
    about_.page(HIVE_PAGE_HEALTH, "GET", "/health", 0, 200);
    about_.page(HIVE_PAGE_MODELS, "GET", "/v1/models", 0, 2000);
    about_.page(HIVE_PAGE_METRICS, "GET", "/metrics", 0, 10'000);
    about_.page(HIVE_PAGE_LOAD, "GET", "/load", 20, 2000);
    about_.signal("running", "requests", "short-lived", 3000);
    about_.signal("seen_seconds", "seconds", "short-lived", 3000);
  }
  const sdk::engine_description &describe() const { return about_; }
  void parse_page(uint32_t page, uint32_t status, std::string_view body, const sdk::page_sink &sink) const {
    if (page == 0 && !sdk::no_such_page(status)) sdk::report_health(status, body, sink);
    if (page == 1) sdk::report_models(status, body, sink);
    if (page == 2) sdk::report_metrics(status, body, reader_, sink);
    if (page == 3) sdk::report_load(status, body, sink);
  }
  sdk::answer classify(uint32_t status, std::span<const hive_header> headers, std::string_view body) const {
    return sdk::classify_common(status, headers, body, sdk::error_of(status, body));
  }

 private:
  sdk::engine_description about_;
  sdk::prometheus_reader reader_{{{"running", sdk::fold::sum, {"m:running"}},
                                  {"waiting", sdk::fold::sum, {"m:waiting"}},
                                  {"tokens", sdk::fold::counter, {"m:tokens"}},
                                  {"done", sdk::fold::counter, {"m:done"}, "reason"},
                                  {"seen_seconds", sdk::fold::histogram, {"m:seen"}}}};
};

struct quick_codec {
  quick_codec()
      : adapter{quick_adapter(), nullptr}, codec((adapter.description = adapter.codec.describe().raw(), &sdk::engine<quick_adapter>::vtable), &adapter) {}
  sdk::engine<quick_adapter>::instance adapter;
  engine_codec codec;
};

class paged_engine {
 public:
  enum class way { answer, hang, cut };
  struct page {
    int status = 200;
    std::string body;
    way how = way::answer;
  };

  void set(const std::string &path, page p) {
    const std::lock_guard lock(mutex_);
    pages_[path] = std::move(p);
  }
  void models(const std::string &list) { set("/v1/models", {200, R"({"object":"list","data":[)" + list + "]}"}); }
  uint16_t port() const { return origin_.port; }
  size_t asked(const std::string &path) {
    const std::lock_guard lock(mutex_);
    return asked_[path];
  }
  // Until `path` was asked for so many more times. False when patience runs out.
  bool wait_asked(const std::string &path, size_t more) {
    std::unique_lock lock(mutex_);
    const size_t want = asked_[path] + more;
    return changed_.wait_for(lock, std::chrono::milliseconds(http::test::patience_ms), [&] { return asked_[path] >= want; });
  }

 private:
  void serve(http::test::raw_socket &s) {
    while (!s.ended()) {
      const std::string head = s.until("\r\n\r\n");
      const size_t from = head.find(' ') + 1, to = head.find(' ', from);
      if (head.empty() || to == std::string::npos) return;
      const std::string path = head.substr(from, to - from);
      page p{404, R"({"detail":"Not Found"})"};
      {
        const std::lock_guard lock(mutex_);
        if (const auto it = pages_.find(path); it != pages_.end()) p = it->second;
        ++asked_[path];
        changed_.notify_all();
      }
      if (p.how == way::cut) return;
      if (p.how == way::hang) {
        s.until_end();
        return;
      }
      s.send("HTTP/1.1 " + std::to_string(p.status) + " x\r\nContent-Length: " + std::to_string(p.body.size()) + "\r\n\r\n" + p.body);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, page> pages_;
  std::map<std::string, size_t> asked_;
  http::test::scripted_origin origin_{[this](http::test::raw_socket &s, int) { serve(s); }};
};

}  // namespace hive::agent::test
