// The official AWS client for Bedrock against the gateway, with its bearer
// token. What the gateway signs is checked before it gets to the provider.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand, InvokeModelCommand, InvokeModelWithResponseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { direct, fiveWords, key, slowKey, spentKey, url } from './helpers.js';

const client = (token, more = {}) =>
  new BedrockRuntimeClient({ region: 'us-east-1', endpoint: url, token: { token }, authSchemePreference: ['httpBearerAuth'], ...more });
const ask = (modelId, more = {}) => ({ modelId, messages: [{ role: 'user', content: [{ text: 'Say something.' }] }], inferenceConfig: { maxTokens: 50 }, ...more });
const toolConfig = { tools: [{ toolSpec: { name: 'set_budget', inputSchema: { json: { type: 'object', properties: { text: { type: 'string' } } } } } }] };
const invoke = (modelId) => ({
  modelId, contentType: 'application/json',
  body: JSON.stringify({ anthropic_version: 'bedrock-2023-05-31', max_tokens: 50, messages: [{ role: 'user', content: 'Say something.' }] }),
});

// sends returns the times of a client's attempts.
function sends(bedrock) {
  const at = [];
  bedrock.middlewareStack.add((next) => (args) => {
    at.push(performance.now());
    return next(args);
  }, { step: 'deserialize', priority: 'low' });
  return at;
}

test('converse', async () => {
  const got = await client(key).send(new ConverseCommand(ask('sim-in20-cached8-out5')));
  assert.equal(got.output.message.content[0].text, fiveWords);
  assert.equal(got.usage.inputTokens, 12);
  assert.equal(got.usage.cacheReadInputTokens, 8);
});

test('converse, streamed', async () => {
  let text = '';
  let usage;
  for await (const event of (await client(key).send(new ConverseStreamCommand(ask('sim-in20-out5')))).stream) {
    text += event.contentBlockDelta?.delta.text ?? '';
    usage = event.metadata?.usage ?? usage;
  }
  assert.equal(text, fiveWords);
  assert.equal(usage.totalTokens, 25);
});

test('tools', async () => {
  const got = await client(key).send(new ConverseCommand(ask('sim-tool-out5', { toolConfig })));
  const { toolUse } = got.output.message.content[0];
  assert.deepEqual([toolUse.name, toolUse.input], ['set_budget', { text: fiveWords }]);
});

test('invoke, whole and streamed', async () => {
  const whole = await client(key).send(new InvokeModelCommand(invoke('sim-in20-out5')));
  assert.equal(JSON.parse(new TextDecoder().decode(whole.body)).content[0].text, fiveWords);
  let text = '';
  let metrics;
  for await (const { chunk } of (await client(key).send(new InvokeModelWithResponseStreamCommand(invoke('sim-in20-out5')))).body) {
    const event = JSON.parse(new TextDecoder().decode(chunk.bytes));
    text += event.delta?.text ?? '';
    metrics = event['amazon-bedrock-invocationMetrics'] ?? metrics;
  }
  assert.equal(text, fiveWords);
  assert.equal(metrics.outputTokenCount, 5);
});

test('errors keep their class', async () => {
  const error = await client(key, { maxAttempts: 1 }).send(new ConverseCommand(ask('sim-fail400'))).catch((e) => e);
  assert.equal(error.name, 'ValidationException');
  const wrong = await client('sk-llmgw-nobody', { maxAttempts: 1 }).send(new ConverseCommand(ask('sim'))).catch((e) => e);
  if (!direct) assert.equal(wrong.name, 'UnrecognizedClientException');
});

test('an error in a running stream, and a cut, are thrown', async () => {
  for (const [model, name] of [['sim-chunks5-err3', 'ServiceUnavailableException'], ['sim-chunks5-end3', direct ? undefined : 'ModelStreamErrorException']]) {
    const error = await (async () => {
      for await (const _ of (await client(key).send(new ConverseStreamCommand(ask(model)))).stream);
    })().catch((e) => e);
    if (name) assert.equal(error?.name, name, model);
  }
});

test('a refusal is retried after the seconds it names', { skip: direct && 'only the gateway refuses' }, async () => {
  const slow = client(slowKey);
  await slow.send(new ConverseCommand(ask('sim-out5')));
  const at = sends(slow);
  await slow.send(new ConverseCommand(ask('sim-out5')));
  assert.equal(at.length, 2);
  assert.ok(at[1] - at[0] >= 1300 && at[1] - at[0] < 3500, `came back after ${at[1] - at[0]} ms`);
});

test('a spent budget keeps its class, and its 429 is tried as often as any other', { skip: direct && 'only the gateway refuses' }, async () => {
  const spent = client(spentKey);
  await spent.send(new ConverseCommand(ask('sim-in100-out50')));
  const at = sends(spent);
  const error = await spent.send(new ConverseCommand(ask('sim-in100-out50'))).catch((e) => e);
  assert.equal(error.name, 'ServiceQuotaExceededException');
  assert.equal(error.$metadata.httpStatusCode, 429);
  assert.match(error.message, /limit of 200 tokens/);
  assert.equal(at.length, 3);
});
