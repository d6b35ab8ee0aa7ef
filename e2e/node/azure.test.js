// Azure as the official OpenAI client for Node speaks to it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AzureOpenAI } from 'openai';
import { checkOneRetry, counting, direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (apiKey, more = {}) => new AzureOpenAI({ endpoint: url, apiKey, apiVersion: '2024-10-21', ...more });
const ask = (model, more = {}) => ({ model, messages: [{ role: 'user', content: 'Say something.' }], max_tokens: 50, ...more });

test('chat, on an Azure provider and on another', async () => {
  for (const model of direct ? ['sim-in20-out5'] : ['on-azure', 'sim-in20-out5']) {
    const got = await client(key).chat.completions.create(ask(model));
    assert.equal(got.choices[0].message.content, fiveWords, model);
    assert.equal(got.usage.total_tokens, 25);
  }
});

test('a stream', async () => {
  let text = '';
  for await (const chunk of await client(key).chat.completions.create(ask('sim-in20-out5', { stream: true }))) {
    text += chunk.choices[0].delta.content ?? '';
  }
  assert.equal(text, fiveWords);
});

test('responses, on an Azure provider and on another, and what is stored of them', async () => {
  const dated = client(key, { apiVersion: '2025-03-01-preview' });
  for (const model of direct ? ['sim-in20-out5'] : ['on-azure', 'sim-in20-out5']) {
    const got = await dated.responses.create({ model, input: 'Say something.', max_output_tokens: 50 });
    assert.equal(got.output_text, fiveWords, model);
    assert.equal(got.usage.total_tokens, 25);
    assert.equal((await dated.responses.retrieve(got.id)).id, got.id);
  }
});

test('embeddings', async () => {
  const got = await client(key).embeddings.create({ model: 'sim-in7', input: ['one', 'two'] });
  assert.equal(got.data.length, 2);
});

test('errors keep their class', async () => {
  const error = await client(key, { maxRetries: 0 }).chat.completions.create(ask('sim-fail400')).catch((e) => e);
  assert.equal(error.constructor, AzureOpenAI.BadRequestError);
});

test('an error in a running stream, and a cut, are thrown', async () => {
  for (const model of ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
    await assert.rejects(async () => {
      for await (const _ of await client(key).chat.completions.create(ask(model, { stream: true })));
    }, undefined, model);
  }
});

test('a refusal is retried at the moment it names', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const slow = client(slowKey, { fetch });
  await slow.chat.completions.create(ask('sim-out5'));
  tries.length = 0;
  await slow.chat.completions.create(ask('sim-out5'));
  checkOneRetry(tries);
});

test('a spent quota is not retried', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const spent = client(spentKey, { fetch });
  await spent.chat.completions.create(ask('sim-in100-out50'));
  tries.length = 0;
  const error = await spent.chat.completions.create(ask('sim-in100-out50')).catch((e) => e);
  assert.equal(error.constructor, AzureOpenAI.RateLimitError);
  assert.equal(error.code, 'insufficient_quota');
  assert.equal(tries.length, 1);
});
