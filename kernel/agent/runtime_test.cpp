#include "agent/runtime.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace hive::agent {
namespace {

TEST(runtime, metadata_names_every_model_and_tells_settings_and_defaults) {
  agent_options o;
  o.capacity = 7;
  const auto json = boost::json::parse(metadata_json(o, {"base", "lora-a"}));
  EXPECT_EQ(json.at("models").as_array().size(), 2u);
  EXPECT_EQ(json.at("model").as_string(), "base");
  EXPECT_EQ(json.at("capacity").as_int64(), 7);
  EXPECT_EQ(json.at("region").as_string(), "UE-France");
  EXPECT_EQ(json.at("tags").at(0).as_string(), "production");
}

}  // namespace
}  // namespace hive::agent
