// Vercel's AI SDK with its OpenAI, Anthropic and Google providers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { APICallError, embedMany, generateText, jsonSchema, streamText, tool } from 'ai';
import { checkOneRetry, counting, direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

globalThis.AI_SDK_LOG_WARNINGS = false;
const ask = (model, more = {}) => ({ model, prompt: 'Say something.', maxOutputTokens: 50, maxRetries: 0, ...more });
const tools = { set_budget: tool({ inputSchema: jsonSchema({ type: 'object', properties: { text: { type: 'string' } } }) }) };

const providers = {
  'openai chat': (apiKey, more) => createOpenAI({ baseURL: `${url}/v1`, apiKey, ...more }).chat,
  'openai responses': (apiKey, more) => createOpenAI({ baseURL: `${url}/v1`, apiKey, ...more }).responses,
  anthropic: (apiKey, more) => createAnthropic({ baseURL: `${url}/v1`, apiKey, ...more }),
  google: (apiKey, more) => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey, ...more }),
};

for (const [name, provider] of Object.entries(providers)) {
  test(`${name}: text, whole and streamed`, async () => {
    const whole = await generateText(ask(provider(key)('sim-in20-out5')));
    assert.equal(whole.text, fiveWords);
    assert.equal(whole.usage.inputTokens, 20);
    assert.equal(whole.usage.outputTokens, 5);
    const streamed = streamText(ask(provider(key)('sim-in20-out5')));
    assert.equal(await streamed.text, fiveWords);
    assert.equal((await streamed.usage).outputTokens, 5);
  });

  test(`${name}: tools, whole and streamed`, async () => {
    const whole = await generateText(ask(provider(key)('sim-tool-out5'), { tools }));
    const streamed = streamText(ask(provider(key)('sim-tool-out5'), { tools }));
    for (const [call] of [whole.toolCalls, await streamed.toolCalls]) {
      assert.deepEqual([call.toolName, call.input], ['set_budget', { text: fiveWords }]);
    }
  });

  test(`${name}: errors keep their status and message`, async () => {
    const error = await generateText(ask(provider(key)('sim-fail400'))).catch((e) => e);
    assert.ok(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /refused, as its model's name asked/);
  });

  test(`${name}: an error in a running stream, and a cut, are no clean end`, async () => {
    // Of a mere cut this client tells nothing: it is the gateway's error event that it reads.
    for (const model of direct ? ['sim-chunks5-err3'] : ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
      const errors = [];
      const stream = streamText(ask(provider(key)(model), { onError: ({ error }) => errors.push(error) }));
      await stream.consumeStream();
      assert.ok(errors.length > 0, `${model}: no error`);
    }
  });

  test(`${name}: a spent budget is told in the API's shape`, { skip: direct && 'only the gateway refuses' }, async () => {
    for (let i = 0; i < 3; i++) {
      const error = await generateText(ask(provider(spentKey)('sim-in100-out50'))).catch((e) => e);
      if (i === 0 && !(error instanceof Error)) continue; // the one that spends it
      assert.equal(error.statusCode, 429, String(error));
      assert.match(error.message, /limit of 200 tokens/);
      return;
    }
    assert.fail('it was never spent');
  });
}

test('embeddings', async () => {
  for (const model of [
    createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).embedding('sim-in7'),
    createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: key }).embedding('sim-in7'),
  ]) {
    assert.equal((await embedMany({ model, values: ['one', 'two'] })).embeddings.length, 2);
  }
});

test('a refusal is retried at the moment it names', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const model = providers['openai chat'](slowKey, { fetch })('sim-out5');
  await generateText(ask(model));
  tries.length = 0;
  await generateText(ask(model, { maxRetries: 2 }));
  checkOneRetry(tries);
});
