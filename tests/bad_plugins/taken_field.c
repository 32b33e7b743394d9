#include "bad.h"
static const hive_field field = {sizeof(hive_field), HIVE_RULE_THRESHOLD, 0, 0, HIVE_STR("srtt"), HIVE_STR("ms"), HIVE_STR("bad"), HIVE_STR("srtt_ms"), 0, 1};
static const hive_field *const fields[] = {&field};
static const hive_gate_vtable gate = {sizeof(hive_gate_vtable), 1, fields, NULL, NULL, NULL, NULL};
ONE_COMPONENT(GATE(HIVE_STR("other-srtt"), &gate))
