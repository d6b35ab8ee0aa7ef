// The official Anthropic client for Node against the gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { counting, direct, ended, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (apiKey, more = {}) => new Anthropic({ baseURL: url, apiKey, ...more });
const say = (model, more = {}) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'Say something.' }], ...more });
const tools = [{ name: 'set_budget', input_schema: { type: 'object', properties: { text: { type: 'string' } } } }];

test('messages', async () => {
  const got = await client(key).messages.create(say('sim-in20-cached8-out5'));
  assert.equal(got.content[0].text, fiveWords);
  assert.equal(got.usage.input_tokens, 12);
  assert.equal(got.usage.cache_read_input_tokens, 8);
  assert.equal(got.usage.output_tokens, 5);
});

test('a stream', async () => {
  const got = await client(key).messages.stream(say('sim-in20-out5')).finalMessage();
  assert.equal(got.content[0].text, fiveWords);
  assert.equal(got.usage.input_tokens, 20);
  assert.equal(got.usage.output_tokens, 5);
  assert.equal(got.stop_reason, 'end_turn');
});

test('tools, whole and streamed', async () => {
  const whole = await client(key).messages.create(say('sim-tool-out5', { tools }));
  const streamed = await client(key).messages.stream(say('sim-tool-out5', { tools })).finalMessage();
  for (const got of [whole, streamed]) {
    assert.equal(got.content[0].name, 'set_budget');
    assert.deepEqual(got.content[0].input, { text: fiveWords });
    assert.equal(got.stop_reason, 'tool_use');
  }
});

test('counting tokens', async () => {
  const { messages } = say('');
  assert.equal((await client(key).messages.countTokens({ model: 'sim-in77', messages })).input_tokens, 77);
});

test('errors keep their class and type', async () => {
  for (const [model, name, type] of [
    ['sim-fail400', 'BadRequestError', 'invalid_request_error'],
    ['sim-fail529', 'OverloadedError', 'overloaded_error'],
  ]) {
    const error = await client(key, { maxRetries: 0 }).messages.create(say(model)).catch((e) => e);
    assert.equal(error.constructor, Anthropic[name]);
    assert.equal(error.error.error.type, type);
    assert.ok(error.requestID);
  }
});

test('a wrong key is an authentication error', { skip: direct && 'the simulated provider takes any key' }, async () => {
  const error = await client('sk-llmgw-nobody').messages.create(say('sim')).catch((e) => e);
  assert.equal(error.constructor, Anthropic.AuthenticationError);
  assert.equal(error.error.error.type, 'authentication_error');
});

test('an error in a running stream is thrown', async () => {
  await assert.rejects(client(key).messages.stream(say('sim-chunks5-err3')).finalMessage(), /Overloaded|overloaded_error/);
});

test('a stream that the provider cuts is never a clean end', async () => {
  await assert.rejects(client(key).messages.stream(say('sim-chunks5-cut3')).finalMessage());
});

test('a refusal is retried at the moment it names', async () => {
  const { tries, fetch } = counting();
  const slow = client(slowKey, { fetch });
  const model = direct ? 'sim-fail429x1-after900ms-tag13' : 'sim-out5';
  if (!direct) await slow.messages.create(say(model));
  tries.length = 0;
  await slow.messages.create(say(model));
  assert.equal(tries.length, 2, JSON.stringify(tries));
  const told = direct ? 1000 : Number(tries[0].wait); // Anthropic itself tells whole seconds
  const waited = tries[1].at - tries[0].at;
  assert.ok(told > 0 && waited >= told && waited < told + 1000, `told ${told} ms, came back after ${waited} ms`);
});

test('a spent budget is not retried', { skip: direct && 'only the gateway says that it should not be' }, async () => {
  const { tries, fetch } = counting();
  const spent = client(spentKey, { fetch });
  await spent.messages.create(say('sim-in100-out50'));
  tries.length = 0;
  const error = await spent.messages.create(say('sim-in100-out50')).catch((e) => e);
  assert.ok(error instanceof Anthropic.RateLimitError, String(error));
  assert.equal(error.error.error.type, 'rate_limit_error');
  assert.ok(error.error.error.details.error_code);
  assert.equal(tries.length, 1);
});

test('a client that leaves ends the work of the provider', async () => {
  const model = 'sim-chunks500-every20ms-tag14';
  const stream = client(key).messages.stream(say(model, { max_tokens: 500 }));
  let texts = 0;
  const gone = new Promise((resolve) => {
    stream.on('text', () => {
      if (++texts === 5) stream.abort();
    });
    stream.on('abort', resolve);
  });
  await gone;
  const seen = await ended(model);
  assert.equal(seen.outcome, 'peer_gone');
  assert.ok(seen.chunks < 60, `${seen.chunks} chunks`);
});
