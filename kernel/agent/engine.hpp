// An engine adapter as the agent uses it: the component's description and its two pure calls in C++ clothes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/windows.hpp"
#include "hive/abi/engine.h"
#include "http/message.hpp"

namespace hive::agent {

// What one page said. Absent values are simply not there.
struct page_news {
  int32_t state = 0;                                  // HIVE_ENGINE_*, 0 = the page says nothing of it
  std::string reason;
  std::vector<std::string> models;
  bool usage_in_characters = false;                   // a model says that its usage counts those and not tokens
  std::map<std::string, double> gauges;
  std::map<std::string, double> counters;             // without a label
  std::map<std::string, std::map<std::string, double>> labelled;  // name -> label value -> total
  std::map<std::string, histogram_totals> histograms;
};

struct answer_class {
  int32_t verdict = HIVE_ANSWER_FAILED;
  uint64_t retry_after_ms = 0;
  std::string message;
};
std::string_view class_name(int32_t verdict);         // client, context, overloaded, starting, failed, unknown_model, ok

// Any thread; the component's calls are [pure]. The table and self outlive it.
class engine_codec {
 public:
  engine_codec(const hive_engine_vtable *table, void *self) : table_(table), self_(self), description_(table->describe(self)) {}

  const hive_engine_description &description() const { return *description_; }
  // Index of the page with that role, or -1.
  int page_of(uint32_t role) const;
  const hive_page &page(int index) const { return *description_->pages[index]; }
  uint64_t stale_after_ms(std::string_view signal) const;
  // False when nothing of the page could be read.
  bool parse(int page, uint32_t status, std::string_view body, page_news &) const;
  answer_class classify(uint32_t status, std::span<const http::field> fields, std::string_view body) const;
  // What the list of models said last of the usage in answers.
  bool usage_in_characters() const { return usage_in_characters_.load(std::memory_order_relaxed); }

 private:
  const hive_engine_vtable *table_;
  void *self_;
  const hive_engine_description *description_;
  mutable std::atomic<bool> usage_in_characters_{false};
};

}  // namespace hive::agent
