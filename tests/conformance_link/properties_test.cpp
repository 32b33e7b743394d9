// kernel/link's own properties, over the real transports.
#include "link/link_properties_test.hpp"

#include "plugin_transport.hpp"

namespace hive::link::testing {

static std::unique_ptr<transport_factory> plugin(const char *id) { return std::make_unique<conformance::plugin_factory>(id); }

INSTANTIATE_TEST_SUITE_P(zmq, link_over_transport, ::testing::Values(+[] { return plugin("zmq"); }));
INSTANTIATE_TEST_SUITE_P(inproc, link_over_transport, ::testing::Values(+[] { return plugin("inproc"); }));

}  // namespace hive::link::testing
