// Transports for the link's tests, made by the plugin room from the libraries that ship. Made and destroyed by one thread
// at a time; between those each instance belongs to its loop.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "link/fake_transport_test.hpp"
#include "plugins/instance.hpp"
#include "plugins/registry.hpp"

namespace hive::conformance {

inline plugins::component_registry &transports() {
  static plugins::component_registry &r = *[] {
    auto *made = new plugins::component_registry;
    plugins::settings s;
    s.trusted_dirs = {PLUGIN_DIR};
    s.enable_trusted = false;
    s.enable = {"transport_zmq", "transport_inproc"};
    const status st = made->load(s);
    EXPECT_TRUE(st.ok()) << st.text();
    return made;
  }();
  return r;
}

// Instances on several loops share it.
class quiet_services final : public plugins::host_services {
 public:
  void log(int32_t, std::string_view, std::string_view, std::string_view) override {}
  bool post(std::function<void()>) override { return false; }
  hive_column column(std::string_view) override { return 0; }
  hive_metric register_metric(int32_t, const std::string &, const std::string &) override { return ++metrics_; }
  void add_metric(hive_metric, double) override {}

 private:
  std::atomic<hive_metric> metrics_{0};
};

class plugin_end final : public link::testing::transport_end {
 public:
  explicit plugin_end(std::unique_ptr<plugins::instance> i) : instance_(std::move(i)) {
    instance_->on_request_pump([](void *self) { static_cast<plugin_end *>(self)->request_pump(); }, this);
  }
  link::transport_ref ref() override { return {instance_->transport(), instance_->self()}; }

 private:
  std::unique_ptr<plugins::instance> instance_;
};

class plugin_factory final : public link::testing::transport_factory {
 public:
  explicit plugin_factory(std::string id) : id_(std::move(id)) {}
  std::unique_ptr<link::testing::transport_end> make() override {
    const plugins::component *c = transports().find(HIVE_KIND_TRANSPORT, id_);
    EXPECT_NE(c, nullptr) << id_;
    auto made = plugins::instance::make(transports(), *c, {"link", "test", "", {}}, services_);
    EXPECT_TRUE(made.ok()) << made.why().text();
    return std::make_unique<plugin_end>(std::move(*made));
  }

 private:
  std::string id_;
  quiet_services services_;
};

}  // namespace hive::conformance
