// Vercel's ai package against a router. Prints one JSON line a check: {"name", "ok", "error"?}.
// node ai_checks.mjs MODULES ROUTER_URL, where MODULES is the folder that has node_modules.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [modules, router] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { generateText, streamText, embedMany, tool, stepCountIs, APICallError } = require('ai');
const { createOpenAICompatible } = require('@ai-sdk/openai-compatible');
const { z } = require('zod');

const provider = createOpenAICompatible({ name: 'hivenet', baseURL: router + '/v1', apiKey: 'none', includeUsage: true });
const model = provider.chatModel('sim-model');
const once = { model, prompt: 'hello', maxRetries: 0 };
const look_up = tool({ description: 'looks up', inputSchema: z.object({ text: z.string() }), execute: async ({ text }) => 'found ' + text });

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
};

for (const [name, check] of Object.entries(checks)) {
  const result = { name, ok: true };
  try {
    await check();
  } catch (e) {
    result.ok = false;
    result.error = String(e?.stack ?? e).slice(0, 2000);
  }
  console.log(JSON.stringify(result));
}
