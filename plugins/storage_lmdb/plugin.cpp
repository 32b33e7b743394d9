// The component `lmdb` of kind storage.
#include "lmdb_store.hpp"

HIVE_PLUGIN("storage_lmdb", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::storage<hive::storage_lmdb::lmdb_store>)
