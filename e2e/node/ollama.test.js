// The official Ollama client for Node against the gateway. It never tries again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import { direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (token) => new Ollama({ host: url, headers: { Authorization: `Bearer ${token}` } });
const ask = (model, more = {}) => ({ model, messages: [{ role: 'user', content: 'Say something.' }], options: { num_predict: 50 }, ...more });
const tools = [{ type: 'function', function: { name: 'set_budget', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }];

test('chat and generate', async () => {
  const got = await client(key).chat(ask('sim-in20-out5'));
  assert.equal(got.message.content, fiveWords);
  assert.equal(got.prompt_eval_count, 20);
  const generated = await client(key).generate({ model: 'sim-in20-out5', prompt: 'Say something.' });
  assert.equal(generated.response, fiveWords);
});

test('a stream', async () => {
  let text = '';
  let last;
  for await (const part of await client(key).chat(ask('sim-in20-out5', { stream: true }))) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, fiveWords);
  assert.equal(last.done, true);
  assert.equal(last.eval_count, 5);
});

test('tools', async () => {
  const [call] = (await client(key).chat(ask('sim-tool-out5', { tools }))).message.tool_calls;
  assert.deepEqual([call.function.name, call.function.arguments], ['set_budget', { text: fiveWords }]);
});

test('embeddings', async () => {
  const got = await client(key).embed({ model: 'sim-in7', input: ['one', 'two'] });
  assert.equal(got.embeddings.length, 2);
  assert.equal(got.prompt_eval_count, 7);
});

test('errors keep their status and message', async () => {
  const error = await client(key).chat(ask('sim-fail404')).catch((e) => e);
  assert.equal(error.status_code, 404, String(error));
  assert.match(error.message, /refused, as its model's name asked/);
});

test('an error in a running stream, and a cut, are thrown', async () => {
  for (const model of ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
    await assert.rejects(async () => {
      for await (const _ of await client(key).chat(ask(model, { stream: true })));
    }, undefined, model);
  }
});

test('refusals are read as they are', { skip: direct && 'only the gateway refuses' }, async () => {
  for (const [token, says] of [[slowKey, /Try again in/], [spentKey, /limit of 200 tokens/]]) {
    await client(token).chat(ask('sim-in100-out50'));
    const error = await client(token).chat(ask('sim-in100-out50')).catch((e) => e);
    assert.equal(error.status_code, 429, String(error));
    assert.match(error.message, says);
  }
});
