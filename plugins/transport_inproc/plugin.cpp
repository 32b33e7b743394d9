// The component `inproc` of kind transport.
#include "transport.hpp"

HIVE_PLUGIN("transport_inproc", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::transport<hive::transport_inproc::transport>)
