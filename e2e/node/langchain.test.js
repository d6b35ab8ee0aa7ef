// LangChain's OpenAI models.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { checkOneRetry, counting, direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const model = (apiKey, name, more = {}, fetch = globalThis.fetch) =>
  new ChatOpenAI({ model: name, apiKey, maxTokens: 50, configuration: { baseURL: `${url}/v1`, fetch }, ...more });
const tools = [{ type: 'function', function: { name: 'set_budget', parameters: { type: 'object', properties: { text: { type: 'string' } } } } }];

test('chat, over chat completions and responses', async () => {
  for (const useResponsesApi of [false, true]) {
    const got = await model(key, 'sim-in20-out5', { useResponsesApi }).invoke('Say something.');
    assert.equal(got.text, fiveWords);
    assert.equal(got.usage_metadata.total_tokens, 25);
  }
});

test('a stream, with the usage that it asks for', async () => {
  let all;
  for await (const chunk of await model(key, 'sim-in20-out5').stream('Say something.')) {
    all = all === undefined ? chunk : all.concat(chunk);
  }
  assert.equal(all.text, fiveWords);
  assert.equal(all.usage_metadata.total_tokens, 25);
});

test('a stream without usage', async () => {
  let all;
  for await (const chunk of await model(key, 'sim-in20-out5', { streamUsage: false }).stream('Say something.')) {
    all = all === undefined ? chunk : all.concat(chunk);
  }
  assert.equal(all.text, fiveWords);
  assert.equal(all.usage_metadata, undefined);
});

test('tools', async () => {
  const [call] = (await model(key, 'sim-tool-out5').bindTools(tools).invoke('Set it.')).tool_calls;
  assert.deepEqual([call.name, call.args], ['set_budget', { text: fiveWords }]);
});

test('embeddings', async () => {
  const got = await new OpenAIEmbeddings({ model: 'sim-in7', apiKey: key, configuration: { baseURL: `${url}/v1` } }).embedDocuments(['one', 'two']);
  assert.equal(got.length, 2);
});

test('Azure', async () => {
  const azure = new AzureChatOpenAI({
    azureOpenAIEndpoint: url, azureOpenAIApiKey: key, azureOpenAIApiDeploymentName: 'sim-in20-out5', azureOpenAIApiVersion: '2024-10-21', maxTokens: 50,
  });
  assert.equal((await azure.invoke('Say something.')).text, fiveWords);
});

test('an error in a running stream, and a cut, are thrown', async () => {
  for (const name of ['sim-chunks5-err3', 'sim-chunks5-cut3']) {
    await assert.rejects(async () => {
      for await (const _ of await model(key, name, { maxRetries: 0 }).stream('Say something.'));
    }, undefined, name);
  }
});

test('a refusal is retried after the seconds it names', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const slow = model(slowKey, 'sim-out5', {}, fetch);
  await slow.invoke('Say something.');
  tries.length = 0;
  await slow.invoke('Say something.');
  checkOneRetry(tries);
});

test('a spent quota is not retried', { skip: direct && 'only the gateway refuses' }, async () => {
  const { tries, fetch } = counting();
  const spent = model(spentKey, 'sim-in100-out50', {}, fetch);
  await spent.invoke('Say something.');
  tries.length = 0;
  const error = await spent.invoke('Say something.').catch((e) => e);
  assert.equal(error.status, 429, String(error));
  assert.equal(error.code, 'insufficient_quota');
  assert.equal(tries.length, 1);
});
