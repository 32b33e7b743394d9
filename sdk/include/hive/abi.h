/* Umbrella of the plugin ABI. The rules are in docs/abi/rules.md. */
#ifndef HIVE_ABI_H
#define HIVE_ABI_H
#include "hive/abi/plugin.h"
#endif
