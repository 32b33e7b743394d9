/* Reaches every struct of the ABI, so that abidw sees it. */
#include "hive/abi.h"

HIVE_EXPORT void hive_anchor(const hive_plugin *plugin, const hive_config *config, const hive_gate_setup *gate_setup,
                             const hive_strategy_vtable *strategy, const hive_gate_vtable *gate, const hive_storage_vtable *storage,
                             const hive_transport_vtable *transport, const hive_engine_vtable *engine, const hive_host *host,
                             const hive_request *request, const hive_pool *pool, const hive_agent *agent, const hive_outcome *outcome);

void hive_anchor(const hive_plugin *plugin, const hive_config *config, const hive_gate_setup *gate_setup,
                 const hive_strategy_vtable *strategy, const hive_gate_vtable *gate, const hive_storage_vtable *storage,
                 const hive_transport_vtable *transport, const hive_engine_vtable *engine, const hive_host *host,
                 const hive_request *request, const hive_pool *pool, const hive_agent *agent, const hive_outcome *outcome) {
  (void)plugin, (void)config, (void)gate_setup, (void)strategy, (void)gate, (void)storage, (void)transport, (void)engine;
  (void)host, (void)request, (void)pool, (void)agent, (void)outcome;
}
