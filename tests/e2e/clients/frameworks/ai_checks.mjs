// Vercel's ai package against a router. Prints one JSON line a check: {"name", "ok", "error"?}.
// node ai_checks.mjs MODULES ROUTER_URL ENGINE_URL, where MODULES is the folder that has node_modules.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [modules, router, engine] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { generateText, streamText, embedMany, tool, stepCountIs, APICallError } = require('ai');
const { createOpenAICompatible } = require('@ai-sdk/openai-compatible');
const { z } = require('zod');

const provider = createOpenAICompatible({ name: 'hivenet', baseURL: router + '/v1', apiKey: 'none', includeUsage: true });
const model = provider.chatModel('sim-model');
const once = { model, prompt: 'hello', maxRetries: 0 };
const look_up = tool({ description: 'looks up', inputSchema: z.object({ text: z.string() }), execute: async ({ text }) => 'found ' + text });

const faults = (switches = {}) => fetch(engine + '/sim/faults', { method: 'POST', body: JSON.stringify(switches) });
const state = async () => (await fetch(engine + '/sim/state')).json();

const checks = {
  async generate_text() {
    const r = await generateText(once);
    assert.equal(r.text, 'token '.repeat(6));
    assert.equal(r.usage.outputTokens, 6);
    assert.equal(r.finishReason, 'length');
  },
  async stream_text() {
    const r = streamText(once);
    let text = '';
    for await (const part of r.textStream) text += part;
    assert.equal(text, 'token '.repeat(6));
    assert.equal((await r.usage).outputTokens, 6);
  },
  async tools() {
    const r = await generateText({ ...once, tools: { look_up }, stopWhen: stepCountIs(2) });
    assert.equal(r.steps[0].toolResults[0].output, 'found ' + 'token '.repeat(6));
    assert.equal(r.text, 'token '.repeat(6));
  },
  async embeddings() {
    const { embeddings } = await embedMany({ model: provider.textEmbeddingModel('sim-embed'), values: ['a', 'b'], maxRetries: 0 });
    assert.equal(embeddings[1].length, 8);
  },
  async errors() {
    await assert.rejects(generateText({ ...once, model: provider.chatModel('nobody') }),
      (e) => APICallError.isInstance(e) && e.statusCode === 404 && !e.isRetryable);
  },
  async error_in_a_stream() {
    await faults({ cut_after: 3 });
    const errors = [];
    let finished = false;
    try {
      for await (const part of streamText({ ...once, onError: () => {} }).fullStream) {
        if (part.type === 'error') errors.push(part.error);
        finished = finished || (part.type === 'finish' && part.finishReason !== 'error');
      }
    } catch (e) {
      errors.push(e);  // the cut connection behind the event
    }
    assert(errors.length > 0 && !finished, 'half an answer is taken for a whole one');
  },
  async abort() {
    await faults({ step_ms: 50 });
    const before = (await state()).aborted;
    const leaving = new AbortController();
    const r = streamText({ ...once, maxOutputTokens: 500, abortSignal: leaving.signal, onError: () => {} });
    for await (const _ of r.textStream) {
      leaving.abort();
      break;
    }
    const end = Date.now() + 3000;
    while ((await state()).aborted !== before + 1) assert(Date.now() < end, "the engine's request goes on");
  },
  async retries() {
    const before = (await state()).chats;
    await faults({ status: 500, count: 1 });
    const r = await generateText({ ...once, maxRetries: 2 });
    assert.equal(r.text, 'token '.repeat(6));
    assert.equal((await state()).chats, before + 2);
  },
};

for (const [name, check] of Object.entries(checks)) {
  const result = { name, ok: true };
  await faults();
  try {
    await check();
  } catch (e) {
    result.ok = false;
    result.error = String(e?.stack ?? e).slice(0, 2000);
  }
  console.log(JSON.stringify(result));
}
