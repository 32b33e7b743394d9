int hive_plugin_entry_v9(void) { return 0; }
