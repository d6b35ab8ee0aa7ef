// Mistral's client for Node against the gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mistral } from '@mistralai/mistralai';
import { HTTPClient } from '@mistralai/mistralai/lib/http.js';
import { checkOneRetry, counting, direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (apiKey, more = {}) => new Mistral({ serverURL: url, apiKey, ...more });
const ask = (model, more = {}) => ({ model, messages: [{ role: 'user', content: 'Say something.' }], maxTokens: 50, ...more });

// retrying is a client that retries, which is off by default, and notes its tries.
function retrying(apiKey) {
  const { tries, fetch } = counting();
  const backoff = { initialInterval: 200, maxInterval: 60000, exponent: 1.5, maxElapsedTime: 20000 };
  return { tries, mistral: client(apiKey, { httpClient: new HTTPClient({ fetcher: fetch }), retryConfig: { strategy: 'backoff', backoff } }) };
}

test('chat', async () => {
  const got = await client(key).chat.complete(ask('sim-in20-out5'));
  assert.equal(got.choices[0].message.content, fiveWords);
  assert.equal(got.usage.totalTokens, 25);
});

test('a stream', async () => {
  let text = '';
  for await (const { data } of await client(key).chat.stream(ask('sim-in20-out5'))) text += data.choices[0]?.delta.content ?? '';
  assert.equal(text, fiveWords);
});

test('tools', async () => {
  const tools = [{ type: 'function', function: { name: 'set_budget', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }];
  const got = await client(key).chat.complete(ask('sim-tool-out5', { tools }));
  const [call] = got.choices[0].message.toolCalls;
  assert.equal(call.function.name, 'set_budget');
  assert.deepEqual(JSON.parse(call.function.arguments), { text: fiveWords });
});

test('a refusal is retried at the moment it names', { skip: direct && 'only the gateway has this limit' }, async () => {
  const { tries, mistral } = retrying(slowKey);
  await mistral.chat.complete(ask('sim-out5'));
  tries.length = 0;
  await mistral.chat.complete(ask('sim-out5'));
  checkOneRetry(tries);
});

test('a spent budget ends with the reason', { skip: direct && 'only the gateway has this limit' }, async () => {
  const { tries, fetch } = counting();
  const spent = client(spentKey, { httpClient: new HTTPClient({ fetcher: fetch }) });
  await spent.chat.complete(ask('sim-in100-out50'));
  tries.length = 0;
  const error = await spent.chat.complete(ask('sim-in100-out50')).catch((e) => e);
  assert.equal(error.statusCode, 429);
  assert.match(error.body, /is at its limit of 200 tokens per month/);
  assert.equal(tries.length, 1);
  assert.equal(tries[0].limit, 'team/mistral-node-spent/monthly');
});
