// The official OpenAI client for Node against the gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { counting, direct, ended, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (apiKey, more = {}) => new OpenAI({ baseURL: `${url}/v1`, apiKey, ...more });
const ask = (model, more = {}) => ({ model, messages: [{ role: 'user', content: 'Say something.' }], max_tokens: 50, ...more });
const tools = [{ type: 'function', function: { name: 'set_budget', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }];

test('chat', async () => {
  const got = await client(key).chat.completions.create(ask('sim-in20-out5'));
  assert.equal(got.choices[0].message.content, fiveWords);
  assert.equal(got.usage.total_tokens, 25);
});

test('a stream without usage has no chunk that a naive loop would fail on', async () => {
  let text = '';
  for await (const chunk of await client(key).chat.completions.create(ask('sim-in20-out5', { stream: true }))) {
    text += chunk.choices[0].delta.content ?? '';
    assert.equal(chunk.usage ?? null, null);
  }
  assert.equal(text, fiveWords);
});

test('a stream with usage ends with it', async () => {
  let usage;
  for await (const chunk of await client(key).chat.completions.create(
    ask('sim-in20-out5', { stream: true, stream_options: { include_usage: true } }),
  )) {
    usage = chunk.usage ?? usage;
  }
  assert.equal(usage.total_tokens, 25);
});

test('the stream helper gathers text and tool calls', async () => {
  const text = await client(key).chat.completions.stream(ask('sim-in20-out5')).finalContent();
  assert.equal(text, fiveWords);
  const message = await client(key).chat.completions.stream(ask('sim-tool-out5', { tools })).finalMessage();
  assert.equal(message.tool_calls[0].function.name, 'set_budget');
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { text: fiveWords });
});

test('tools', async () => {
  const got = await client(key).chat.completions.create(ask('sim-tool-out5', { tools }));
  const [call] = got.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'set_budget');
  assert.deepEqual(JSON.parse(call.function.arguments), { text: fiveWords });
  assert.equal(got.choices[0].finish_reason, 'tool_calls');
});

test('embeddings, which this client asks for as base64', async () => {
  const got = await client(key).embeddings.create({ model: 'sim-in7', input: ['one', 'two'] });
  assert.equal(got.data.length, 2);
  assert.equal(got.data[0].embedding[0], -0.5);
  assert.equal(got.usage.total_tokens, 7);
});

test('pictures, made and changed', async () => {
  const made = await client(key).images.generate({ model: 'sim-in20-out50', prompt: 'A budget.', n: 2 });
  assert.equal(made.data.length, 2);
  assert.equal(made.usage.total_tokens, 120);
  const image = await OpenAI.toFile(Buffer.from(made.data[0].b64_json, 'base64'), 'a.png', { type: 'image/png' });
  const changed = await client(key).images.edit({ model: 'sim-in20-out50', prompt: 'A larger one.', image: [image, image], size: '1024x1024' });
  assert.equal(changed.data.length, 1);
  assert.equal(changed.usage.total_tokens, 70);
});

test('speech, and what was said', async () => {
  const sound = Buffer.from(await (await client(key).audio.speech.create({ model: 'sim-out5', input: fiveWords, voice: 'alloy' })).arrayBuffer());
  assert.equal(sound.toString('latin1', 0, 3), 'ID3');
  const file = await OpenAI.toFile(sound, 'said.mp3');
  for (const kind of ['transcriptions', 'translations']) {
    const got = await client(key).audio[kind].create({ model: 'sim-in20-out5', file });
    assert.equal(got.text, fiveWords);
  }
});

test('responses, whole and streamed', async () => {
  const request = { model: 'sim-in20-out5', input: 'Say something.' };
  const got = await client(key).responses.create(request);
  assert.equal(got.output_text, fiveWords);
  assert.equal(got.usage.total_tokens, 25);
  const types = new Set();
  let text = '';
  let usage;
  for await (const event of await client(key).responses.create({ ...request, stream: true })) {
    types.add(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') usage = event.response.usage;
  }
  assert.equal(text, fiveWords);
  assert.equal(usage.total_tokens, 25);
  assert.ok(types.has('response.created') && types.has('response.output_item.done'));
});

test('models', async () => {
  const { data } = await client(key).models.list();
  assert.ok(data.length > 0);
  assert.equal((await client(key).models.retrieve(data[0].id)).id, data[0].id);
});

test('errors keep their class, type and message', async () => {
  for (const [model, name, type] of [
    ['sim-fail400', 'BadRequestError', 'invalid_request_error'],
    ['sim-fail500', 'InternalServerError', 'server_error'],
  ]) {
    const error = await client(key, { maxRetries: 0 }).chat.completions.create(ask(model)).catch((e) => e);
    assert.equal(error.constructor, OpenAI[name]);
    assert.equal(error.type, type);
    assert.ok(error.requestID);
  }
});

test('a wrong key is an authentication error', { skip: direct && 'the simulated provider takes any key' }, async () => {
  const error = await client('sk-llmgw-nobody').chat.completions.create(ask('sim')).catch((e) => e);
  assert.equal(error.constructor, OpenAI.AuthenticationError);
  assert.equal(error.code, 'invalid_api_key');
});

test('an error in a running stream is thrown', async () => {
  let chunks = 0;
  await assert.rejects(async () => {
    for await (const _ of await client(key).chat.completions.create(ask('sim-chunks5-err3', { stream: true }))) chunks += 1;
  }, /The server had an error/);
  assert.ok(chunks >= 3);
});

test('a stream that the provider cuts is never a clean end', async () => {
  await assert.rejects(async () => {
    for await (const _ of await client(key).chat.completions.create(ask('sim-chunks5-cut3', { stream: true })));
  });
});

test('a refusal is retried at the moment it names', async () => {
  const { tries, fetch } = counting();
  const slow = client(slowKey, { fetch });
  const model = direct ? 'sim-fail429x1-after700ms-tag11' : 'sim-out5';
  if (!direct) await slow.chat.completions.create(ask(model));
  tries.length = 0;
  await slow.chat.completions.create(ask(model));
  assert.equal(tries.length, 2, JSON.stringify(tries));
  const told = Number(tries[0].wait);
  const waited = tries[1].at - tries[0].at;
  assert.ok(told > 0 && waited >= told && waited < told + 1000, `told ${told} ms, came back after ${waited} ms`);
});

test('a spent quota is not retried', { skip: direct && 'only the gateway says that it should not be' }, async () => {
  const { tries, fetch } = counting();
  const spent = client(spentKey, { fetch });
  await spent.chat.completions.create(ask('sim-in100-out50'));
  tries.length = 0;
  const error = await spent.chat.completions.create(ask('sim-in100-out50')).catch((e) => e);
  assert.equal(error.constructor, OpenAI.RateLimitError);
  assert.equal(error.code, 'insufficient_quota');
  assert.equal(tries.length, 1);
  assert.equal(tries[0].limit, 'team/openai-node-spent/monthly');
});

test('a client that leaves ends the work of the provider', async () => {
  const model = 'sim-chunks500-every20ms-tag12';
  let chunks = 0;
  for await (const _ of await client(key).chat.completions.create(ask(model, { stream: true, max_tokens: 500 }))) {
    if (++chunks === 5) break;
  }
  const seen = await ended(model);
  assert.equal(seen.outcome, 'peer_gone');
  assert.ok(seen.chunks < 60, `${seen.chunks} chunks`);
});
