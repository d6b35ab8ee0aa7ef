// The official Google client for Node against the gateway. It never tries again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, GoogleGenAI } from '@google/genai';
import { direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
const ask = (model, config = {}) => ({ model, contents: 'Say something.', config: { maxOutputTokens: 50, ...config } });
const tools = [{ functionDeclarations: [{ name: 'set_budget', parametersJsonSchema: { type: 'object', properties: { text: { type: 'string' } } } }] }];

test('generate', async () => {
  const got = await client(key).models.generateContent(ask('sim-in20-cached8-out9-reason4'));
  assert.equal(got.text, fiveWords);
  assert.equal(got.usageMetadata.promptTokenCount, 20);
  assert.equal(got.usageMetadata.cachedContentTokenCount, 8);
  assert.equal(got.usageMetadata.thoughtsTokenCount, 4);
});

test('a stream', async () => {
  let text = '';
  let usage;
  for await (const chunk of await client(key).models.generateContentStream(ask('sim-in20-out5'))) {
    text += chunk.text ?? '';
    usage = chunk.usageMetadata ?? usage;
  }
  assert.equal(text, fiveWords);
  assert.equal(usage.totalTokenCount, 25);
});

test('tools, whole and streamed', async () => {
  const whole = await client(key).models.generateContent(ask('sim-tool-out5', { tools }));
  const calls = [whole.functionCalls[0]];
  for await (const chunk of await client(key).models.generateContentStream(ask('sim-tool-out5', { tools }))) {
    if (chunk.functionCalls) calls.push(chunk.functionCalls[0]);
  }
  assert.equal(calls.length, 2);
  for (const call of calls) assert.deepEqual([call.name, call.args], ['set_budget', { text: fiveWords }]);
});

test('embeddings and counting', async () => {
  const got = await client(key).models.embedContent({ model: 'sim-in7', contents: ['one', 'two'] });
  assert.equal(got.embeddings.length, 2);
  assert.equal((await client(key).models.countTokens({ model: 'sim-in77', contents: 'Count this.' })).totalTokens, 77);
});

test('errors keep their status and message', async () => {
  for (const [model, status, says] of [['sim-fail400', 400, /INVALID_ARGUMENT/], ['sim-fail503', 503, /UNAVAILABLE/]]) {
    for (const call of ['generateContent', 'generateContentStream']) {
      const error = await client(key).models[call](ask(model)).catch((e) => e);
      assert.ok(error instanceof ApiError, String(error));
      assert.equal(error.status, status);
      assert.match(error.message, says);
    }
  }
});

test('an error in a running stream is thrown, and so is a cut', async () => {
  for (const model of ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
    let chunks = 0;
    await assert.rejects(async () => {
      for await (const _ of await client(key).models.generateContentStream(ask(model))) chunks += 1;
    }, undefined, model);
    assert.ok(chunks >= 2, `${model}: ${chunks} chunks`);
  }
});

test('a refusal says when to come back', { skip: direct && 'only the gateway refuses' }, async () => {
  const slow = client(slowKey);
  await slow.models.generateContent(ask('sim-out5'));
  const error = await slow.models.generateContent(ask('sim-out5')).catch((e) => e);
  assert.equal(error.status, 429);
  const { details, status } = JSON.parse(error.message).error;
  assert.equal(status, 'RESOURCE_EXHAUSTED');
  const wait = Number.parseFloat(details.find((d) => d['@type'].endsWith('RetryInfo')).retryDelay) * 1000;
  assert.ok(wait > 0 && wait <= 1500, `${wait} ms`);
  await new Promise((resolve) => setTimeout(resolve, wait));
  await slow.models.generateContent(ask('sim-out5'));
});

// Google's own agent retries what names no delay, and ends at once at a long one.
test('a spent budget names the end of its period', { skip: direct && 'only the gateway refuses' }, async () => {
  const spent = client(spentKey);
  await spent.models.generateContent(ask('sim-in100-out50'));
  const error = await spent.models.generateContent(ask('sim-in100-out50')).catch((e) => e);
  assert.equal(error.status, 429);
  const { details } = JSON.parse(error.message).error;
  assert.equal(details[0].reason, 'insufficient_quota');
  const wait = Number.parseFloat(details.find((d) => d['@type'].endsWith('RetryInfo')).retryDelay);
  assert.ok(wait > 60, `${wait} s`);
});
