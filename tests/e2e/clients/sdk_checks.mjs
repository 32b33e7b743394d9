// The official JavaScript SDKs against a router. Prints one JSON line a check: {"name", "ok", "error"?}.
// node sdk_checks.mjs MODULES ROUTER_URL ENGINE_URL GUARDED, where MODULES is the folder that has node_modules and GUARDED is JSON of a
// second router with client keys: {"url", "engine", "good", "forbidden", "over"}.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [modules, router, engine, guardedText] = process.argv.slice(2);
const guarded = JSON.parse(guardedText);
const require = createRequire(modules + '/');
const { default: OpenAI } = require('openai');
const { default: Anthropic } = require('@anthropic-ai/sdk');

const model = 'sim-model';
const messages = [{ role: 'user', content: 'write about the river' }];
const gpt = new OpenAI({ baseURL: router + '/v1', apiKey: 'none', maxRetries: 0, timeout: 20000 });
const claude = new Anthropic({ baseURL: router, apiKey: 'none', maxRetries: 0, timeout: 20000 });
const schema = { type: 'object', properties: { text: { type: 'string' } } };
const arguments_ = { text: 'token '.repeat(6) };

const faults = (switches = {}, of = engine) => fetch(of + '/sim/faults', { method: 'POST', body: JSON.stringify(switches) });
const state = async () => (await fetch(engine + '/sim/state')).json();
async function collect(stream) {
  const all = [];
  for await (const e of stream) all.push(e);
  return all;
}
async function aborted(leave) {
  await faults({ step_ms: 50 });
  const before = (await state()).aborted;
  await leave();
  const end = Date.now() + 3000;
  while ((await state()).aborted !== before + 1) assert(Date.now() < end, "the engine's request goes on");
}

// One refusal of each kind that the second router can be brought to; the SDK must throw what `classes` says of its status.
async function refusals(classes, ask) {
  const throws = async (status, key, text = 'x') =>
    assert.rejects(ask(key, text), (e) => e.status === status && e.constructor.name === classes[status],
      `${status} is not ${classes[status]}`);
  await faults({}, guarded.engine);
  await throws(401, 'sk-nobody');
  await throws(403, guarded.forbidden);
  await throws(413, guarded.good, 'x'.repeat(100000));
  await throws(429, guarded.over);
  await faults({ status: 503 }, guarded.engine);
  await throws(503, guarded.good);
  await faults({ hang: true }, guarded.engine);
  await throws(504, guarded.good);
}

const checks = {
  async openai_models() {
    const ids = (await collect(await gpt.models.list())).map((m) => m.id);
    assert.deepEqual(ids, ['sim-embed', 'sim-model']);
  },
  async openai_buffered() {
    const r = await gpt.chat.completions.create({ model, messages, max_tokens: 4 });
    assert.equal(r.choices[0].message.content, 'token '.repeat(4));
    assert.equal(r.usage.completion_tokens, 4);
  },
  async openai_stream() {
    const all = await collect(await gpt.chat.completions.create({ model, messages, max_tokens: 4, stream: true, stream_options: { include_usage: true } }));
    assert.equal(all.map((c) => c.choices[0]?.delta.content ?? '').join(''), 'token '.repeat(4));
    assert.equal(all.at(-1).usage.completion_tokens, 4);
    const plain = await collect(await gpt.chat.completions.create({ model, messages, max_tokens: 4, stream: true }));
    assert(plain.every((c) => c.choices.length === 1 && !c.usage));
  },
  async openai_tools() {
    const tools = [{ type: 'function', function: { name: 'look_up', parameters: schema } }];
    const r = await gpt.chat.completions.create({ model, messages, tools });
    assert.deepEqual(JSON.parse(r.choices[0].message.tool_calls[0].function.arguments), arguments_);
    const final = await gpt.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), arguments_);
  },
  async openai_responses_embeddings_completions() {
    const r = await gpt.responses.create({ model, input: 'hello', max_output_tokens: 3 });
    assert.equal(r.output_text, 'token '.repeat(3));
    const kinds = (await collect(await gpt.responses.create({ model, input: 'hello', stream: true }))).map((e) => e.type);
    assert.equal(kinds.at(-1), 'response.completed');
    const e = await gpt.embeddings.create({ model: 'sim-embed', input: ['a', 'b'] });
    assert.equal(e.data[1].embedding.length, 8);
    const c = await gpt.completions.create({ model, prompt: 'once', max_tokens: 2 });
    assert.equal(c.choices[0].text, 'token token ');
  },
  async openai_errors() {
    const chat = (more) => gpt.chat.completions.create({ model, messages, ...more });
    await assert.rejects(chat({ model: 'no-such-model' }), (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
    await assert.rejects(chat({ model: 'sim-embed' }), OpenAI.BadRequestError);
    await assert.rejects(chat({ max_tokens: -1 }), OpenAI.BadRequestError);
    await faults({ status: 500 });
    await assert.rejects(chat(), (e) => e instanceof OpenAI.InternalServerError && e.status === 502);
    await faults({ hang: true });
    await assert.rejects(gpt.chat.completions.create({ model, messages }, { timeout: 300 }), OpenAI.APIConnectionTimeoutError);
    await faults({ cut_after: 2 });
    await assert.rejects(chat({ stream: true }).then(collect), (e) => e instanceof OpenAI.APIError && e.code === 'backend_error');
    await assert.rejects(gpt.responses.create({ model, input: 'x', stream: true }).then(collect), OpenAI.APIError);
  },
  async openai_classes() {
    await refusals({ 401: 'AuthenticationError', 403: 'PermissionDeniedError', 413: 'APIError', 429: 'RateLimitError',
      503: 'InternalServerError', 504: 'InternalServerError' },
    (apiKey, content) => new OpenAI({ baseURL: guarded.url + '/v1', apiKey, maxRetries: 0, timeout: 20000 }).chat.completions.create(
      { model, messages: [{ role: 'user', content }] }));
  },
  async openai_abort() {
    await aborted(async () => {
      const s = await gpt.chat.completions.create({ model, messages, max_tokens: 500, stream: true });
      for await (const _ of s) break;
      s.controller.abort();
    });
  },
  async openai_retries() {
    await faults({ status: 500, count: 1 });
    const r = await gpt.chat.completions.create({ model, messages }, { maxRetries: 2 });
    assert(r.choices[0].message.content);
  },
  async anthropic_buffered() {
    const r = await claude.messages.create({ model, messages, max_tokens: 4 });
    assert.equal(r.content[0].text, 'token '.repeat(4));
  },
  async anthropic_stream() {
    const m = await claude.messages.stream({ model, messages, max_tokens: 4 }).finalMessage();
    assert.equal(m.content[0].text, 'token '.repeat(4));
    assert.equal(m.usage.output_tokens, 4);
  },
  async anthropic_tools() {
    const tools = [{ name: 'look_up', input_schema: schema }];
    const m = await claude.messages.stream({ model, messages, max_tokens: 6, tools }).finalMessage();
    assert.deepEqual(m.content[0].input, arguments_);
  },
  async anthropic_count_tokens_and_models() {
    assert((await claude.messages.countTokens({ model, messages })).input_tokens > 0);
    const ids = (await collect(await claude.models.list())).map((m) => m.id);
    assert.deepEqual(ids, ['sim-embed', 'sim-model']);
  },
  async anthropic_errors() {
    const message = (more) => claude.messages.create({ model, messages, max_tokens: 4, ...more });
    await assert.rejects(message({ model: 'no-such-model' }), Anthropic.NotFoundError);
    await assert.rejects(message({ model: 'sim-embed' }), Anthropic.BadRequestError);
    await faults({ status: 500 });
    await assert.rejects(message(), Anthropic.InternalServerError);
    await faults({ cut_after: 2 });
    await assert.rejects(claude.messages.stream({ model, messages, max_tokens: 6 }).finalMessage(),
      (e) => e instanceof Anthropic.APIError && e.error?.error?.code === 'backend_error');
  },
  async anthropic_classes() {
    await refusals({ 401: 'AuthenticationError', 403: 'PermissionDeniedError', 413: 'ContentTooLargeError', 429: 'RateLimitError',
      503: 'ServiceUnavailableError', 504: 'GatewayTimeoutError' },
    (apiKey, content) => new Anthropic({ baseURL: guarded.url, apiKey, maxRetries: 0, timeout: 20000 }).messages.create(
      { model, max_tokens: 4, messages: [{ role: 'user', content }] }));
  },
  async anthropic_abort() {
    await aborted(async () => {
      const s = await claude.messages.create({ model, messages, max_tokens: 500, stream: true });
      for await (const _ of s) break;
      s.controller.abort();
    });
  },
  async anthropic_retries() {
    await faults({ status: 500, count: 1 });
    assert((await claude.messages.create({ model, messages, max_tokens: 2 }, { maxRetries: 2 })).content.length);
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
await faults();
