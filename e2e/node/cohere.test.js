// The official Cohere client for Node against the gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CohereClientV2, CohereError } from 'cohere-ai';
import { checkOneRetry, counting, direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (token, more = {}) => new CohereClientV2({ environment: url, token, ...more });
const ask = (model, more = {}) => ({ model, messages: [{ role: 'user', content: 'Say something.' }], maxTokens: 50, ...more });
const tools = [{ type: 'function', function: { name: 'set_budget', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }];

test('chat', async () => {
  const got = await client(key).chat(ask('sim-in20-out5'));
  assert.equal(got.message.content[0].text, fiveWords);
  assert.equal(got.usage.billedUnits.inputTokens, 20);
});

test('a stream', async () => {
  let text = '';
  let usage;
  for await (const event of await client(key).chatStream(ask('sim-in20-out5'))) {
    if (event.type === 'content-delta') text += event.delta.message.content.text;
    if (event.type === 'message-end') usage = event.delta.usage;
  }
  assert.equal(text, fiveWords);
  assert.equal(usage.billedUnits.outputTokens, 5);
});

test('tools', async () => {
  const [call] = (await client(key).chat(ask('sim-tool-out5', { tools }))).message.toolCalls;
  assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['set_budget', { text: fiveWords }]);
});

test('embeddings and rerank', async () => {
  const got = await client(key).embed({ model: 'sim-in7', texts: ['one', 'two'], inputType: 'search_query', embeddingTypes: ['float'] });
  assert.equal(got.embeddings.float.length, 2);
  assert.equal(got.meta.billedUnits.inputTokens, 7);
  const ranked = await client(key).rerank({ model: 'sim', query: 'q', documents: ['one', 'two'] });
  assert.equal(ranked.results.length, 2);
});

test('errors keep their status and message', async () => {
  const error = await client(key, { maxRetries: 0 }).chat(ask('sim-fail400')).catch((e) => e);
  assert.ok(error instanceof CohereError, String(error));
  assert.equal(error.statusCode, 400);
  assert.match(error.body.message, /refused, as its model's name asked/);
});

test('an error ends a stream as its reason, and a cut is no clean end', async () => {
  for (const model of ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
    let last;
    const broke = await (async () => {
      for await (const event of await client(key).chatStream(ask(model))) last = event;
    })().catch((e) => e);
    assert.ok(broke instanceof Error || last.delta?.finishReason === 'ERROR', `${model}: ended with ${JSON.stringify(last)}`);
  }
});

test('a refusal is retried after the seconds it names', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const slow = client(slowKey, { fetch });
  await slow.chat(ask('sim-out5'));
  tries.length = 0;
  await slow.chat(ask('sim-out5'));
  checkOneRetry(tries);
});

test('a spent budget says so', { skip: direct && 'only the gateway refuses' }, async () => {
  const spent = client(spentKey, { maxRetries: 0 }); // it would not heed x-should-retry
  await spent.chat(ask('sim-in100-out50'));
  const error = await spent.chat(ask('sim-in100-out50')).catch((e) => e);
  assert.equal(error.statusCode, 429, String(error));
  assert.match(error.body.message, /limit of 200 tokens/);
});
