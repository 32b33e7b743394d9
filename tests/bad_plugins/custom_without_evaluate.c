#include "bad.h"
static const hive_field field = {sizeof(hive_field), HIVE_RULE_CUSTOM, 0, 0, HIVE_STR("odd"), HIVE_STR("ms"), HIVE_STR("bad"), HIVE_STR(""), 0, 0};
static const hive_field *const fields[] = {&field};
static const hive_gate_vtable gate = {sizeof(hive_gate_vtable), 1, fields, NULL, NULL, NULL, NULL};
ONE_COMPONENT(GATE(HIVE_STR("odd"), &gate))
