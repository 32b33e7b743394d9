// The policies and routes of one moment. Immutable once published; the control thread builds the next one and swaps the
// pointer, a session keeps the route it opened on to its end.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text.hpp"
#include "routing/lane.hpp"
#include "routing/policy.hpp"
#include "routing/pressure.hpp"
#include "routing/step.hpp"

namespace hive::routing {

// A pool and the steps of the document that governs it, compiled for it.
struct route {
  std::shared_ptr<const policy_document> document;
  std::shared_ptr<lane> where;
  std::vector<std::shared_ptr<step>> steps;
  std::shared_ptr<const pressure> shed;   // null: no shed_if

  uint32_t needs() const {                 // HIVE_NEEDS_* of all its components
    uint32_t all = 0;
    for (const auto &one : steps) all |= one->needs();
    return all;
  }
};

// What the policies of one moment say of one model; keeps it alive.
struct governed {
  std::shared_ptr<const route> way;        // null: no pool of that model
  std::shared_ptr<const policy_document> document;
};

class snapshot {
 public:
  using named_documents = std::map<std::string, std::shared_ptr<const policy_document>>;

  // Two documents claiming one model: the first by name wins; whoever loads them refuses the second.
  snapshot(std::shared_ptr<const policy_document> global, named_documents named);

  const std::shared_ptr<const policy_document> &global() const { return global_; }
  const named_documents &named() const { return named_; }
  // The document that lists the model, else the global one. Nothing is merged.
  const std::shared_ptr<const policy_document> &document_for(std::string_view model) const;

  std::shared_ptr<const route> route_for(std::string_view model) const;  // null = no pool of that model
  governed of(std::string_view model) const;
  const auto &routes() const { return routes_; }
  void add(std::shared_ptr<const route> r);  // before it is published

 private:
  template <class T>
  using by_model = std::unordered_map<std::string, T, text_hash, std::equal_to<>>;

  std::shared_ptr<const policy_document> global_;
  named_documents named_;
  by_model<std::shared_ptr<const policy_document>> claimed_;
  by_model<std::shared_ptr<const route>> routes_;
};

// Where the current snapshot is found. Any thread; the mutex is held for one pointer copy.
class snapshot_cell {
 public:
  std::shared_ptr<const snapshot> get() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  // The caller drops the old one, which must not happen under the mutex.
  std::shared_ptr<const snapshot> swap(std::shared_ptr<const snapshot> next) {
    const std::lock_guard lock(mutex_);
    now_.swap(next);
    return next;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const snapshot> now_;
};

}  // namespace hive::routing
