// SPDX-License-Identifier: Apache-2.0
// The real `openai` client through weir and directly to the same emulator: results must be equal.
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {after, before, describe, test} from 'node:test';
import OpenAI from 'openai';
import {Folder, metrics, startEmulator, startGateway, sum, until} from './processes.mjs';

/** Response headers that may differ between weir and the provider, and why. */
const DIFFERENT_HEADERS = new Set([
  'date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length',  // hop by hop, framing
  'x-request-id', 'openai-processing-ms',                                     // one per request
]);
const OWN_HEADER = /^(x-weir-|x-ratelimit-|ratelimit)/;                       // ours, replaced by ours

/** Members that differ between any two calls. */
function settled(value) {
  return JSON.parse(JSON.stringify(value, (key, member) =>
    ['id', 'created', '_request_id', 'request_id'].includes(key) ? undefined : member));
}

function comparable(headers) {
  const kept = {};
  for (const [name, value] of headers) {
    if (!DIFFERENT_HEADERS.has(name) && !OWN_HEADER.test(name)) kept[name] = value;
  }
  return kept;
}

const folder = new Folder();
let emulator;
let gateway;
let direct;
let through;

before(async () => {
  emulator = await startEmulator(folder, ['{unit: requests, amount: 100000, per: 60s, enforce: sliding}']);
  gateway = await startGateway(folder, emulator.port, {limits: '{rpm: 100000}'});
  const client = (port, options = {}) => new OpenAI({
    apiKey: 'sk-test', baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0, ...options});
  direct = client(emulator.port);
  through = client(gateway.port);
});

after(async () => {
  await gateway?.process.stop();
  await emulator?.process.stop();
  folder.remove();
});

async function both(call) {
  return [await call(direct), await call(through)];
}

const tools = [{type: 'function', function: {name: 'get_weather', description: 'weather',
  parameters: {type: 'object', properties: {city: {type: 'string'}}, required: ['city']}}}];

describe('openai client, through weir and directly', () => {
  test('chat', async () => {
    const results = [];
    for (const client of [direct, through]) {
      const {data, response} = await client.chat.completions.create({
        model: 'toy-chat', messages: [{role: 'user', content: 'Say something, é 漢字.'}],
        max_tokens: 40, seed: 7, metadata: {a: 'b'}, user: 'someone'}).withResponse();
      results.push({data: settled(data), headers: comparable(response.headers)});
      assert.ok(data._request_id);
    }
    assert.deepEqual(results[1], results[0]);
    assert.ok(results[0].data.usage.total_tokens > 0);
  });

  test('stream without usage asked', async () => {
    const read = async (client) => {
      const chunks = [];
      const stream = await client.chat.completions.create({model: 'toy-chat', stream: true,
        max_tokens: 30, messages: [{role: 'user', content: 'Stream please'}]});
      for await (const chunk of stream) chunks.push(settled(chunk));
      return chunks;
    };
    const [plain, weir] = await both(read);
    assert.deepEqual(weir, plain);
    assert.ok(weir.length > 2);
    assert.ok(weir.every((chunk) => !('usage' in chunk)));
  });

  test('stream with usage asked', async () => {
    const read = async (client) => {
      const chunks = [];
      const stream = await client.chat.completions.create({model: 'toy-chat', stream: true,
        max_tokens: 30, stream_options: {include_usage: true},
        messages: [{role: 'user', content: 'Stream please'}]});
      for await (const chunk of stream) chunks.push(settled(chunk));
      return chunks;
    };
    const [plain, weir] = await both(read);
    assert.deepEqual(weir, plain);
    assert.equal(weir.filter((chunk) => chunk.usage).length, 1);
    assert.deepEqual(weir.at(-1).choices, []);
  });

  test('tools, streamed and not', async () => {
    const ask = {model: 'toy-chat', tools, tool_choice: 'required', max_tokens: 50,
      messages: [{role: 'user', content: 'What is the weather in Paris?'}]};
    const [plain, weir] = await both(async (client) => settled(await client.chat.completions.create(ask)));
    assert.deepEqual(weir, plain);
    assert.equal(weir.choices[0].message.tool_calls[0].function.name, 'get_weather');
    const [plainStream, weirStream] = await both(async (client) => {
      const stream = client.chat.completions.stream({...ask});
      return settled(await stream.finalChatCompletion());
    });
    assert.deepEqual(weirStream, plainStream);
  });

  test('second turn with a tool result', async () => {
    const messages = [
      {role: 'user', content: 'What is the weather?'},
      {role: 'assistant', content: null, tool_calls: [{id: 'call_1', type: 'function',
        function: {name: 'get_weather', arguments: '{"city":"Paris"}'}}]},
      {role: 'tool', tool_call_id: 'call_1', content: 'sunny'}];
    const [plain, weir] = await both(async (client) => settled(await client.chat.completions.create(
      {model: 'toy-chat', messages, max_tokens: 20})));
    assert.deepEqual(weir, plain);
  });

  test('completions', async () => {
    const [plain, weir] = await both(async (client) => settled(await client.completions.create(
      {model: 'toy-chat', prompt: 'Once upon', max_tokens: 20})));
    assert.deepEqual(weir, plain);
  });

  test('embeddings, base64 by default and floats', async () => {
    const [plain, weir] = await both(async (client) => settled(await client.embeddings.create(
      {model: 'toy-embed', input: ['one', 'two']})));
    assert.deepEqual(weir, plain);
    assert.equal(weir.data.length, 2);
    assert.equal(typeof weir.data[0].embedding[0], 'number');
    const [plainFloat, weirFloat] = await both(async (client) => settled(
      await client.embeddings.create({model: 'toy-embed', input: 'one', encoding_format: 'float'})));
    assert.deepEqual(weirFloat, plainFloat);
  });

  test('models are the profiles of the configuration', async () => {
    const names = [];
    for await (const model of await through.models.list()) names.push(model.id);
    assert.deepEqual(names.sort(), ['toy-chat', 'toy-embed']);
    assert.equal((await through.models.retrieve('toy-chat')).id, 'toy-chat');
  });

  test('an unknown model is NotFoundError with its code', async () => {
    await assert.rejects(through.chat.completions.create({model: 'nope', messages: [
      {role: 'user', content: 'x'}]}), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, 'model_not_found');
      return true;
    });
  });

  test('a bad request is the same error either way', async () => {
    const bad = {model: 'toy-chat', messages: 'not a list'};
    const failures = await both(async (client) => {
      try {
        await client.chat.completions.create(bad);
      } catch (error) {
        return {status: error.status, type: error.type, kind: error.constructor.name};
      }
      return null;
    });
    assert.equal(failures[0].status, 400);
    assert.deepEqual(failures[1], failures[0]);
  });

  test('an unknown path is a 404 with an OpenAI error body', async () => {
    await assert.rejects(through.get('/nowhere'), (error) => {
      assert.equal(error.status, 404);
      assert.ok(error.message.length > 10);
      return true;
    });
  });

  test('abort cancels and frees', async () => {
    const controller = new AbortController();
    const stream = await through.chat.completions.create({model: 'toy-chat', stream: true,
      max_tokens: 4000, messages: [{role: 'user', content: 'long'}]}, {signal: controller.signal});
    for await (const chunk of stream) {
      assert.ok(chunk);
      break;
    }
    controller.abort();
    await until(async () => sum(await metrics(gateway.adminPort), 'weir_inflight') === 0,
      'nothing in flight');
    await until(async () => (await (await fetch(
      `http://127.0.0.1:${emulator.port}/emulator/v1/counters`)).json()).inflight === 0,
      'the emulator saw the cancel');
  });

  test('keys: an unknown one is AuthenticationError, a known one works', async () => {
    const hash = createHash('sha256').update('weir-test-key').digest('hex');
    const other = new Folder();
    const keyed = await startGateway(other, emulator.port, {auth: 'required', extra:
      `tenants: {acme: {keys: {prod: {hash: "sha256:${hash}", models: ["toy-c*"]}}}}`});
    const client = (apiKey) => new OpenAI({apiKey, maxRetries: 0,
      baseURL: `http://127.0.0.1:${keyed.port}/v1`});
    const ask = {model: 'toy-chat', max_tokens: 2, messages: [{role: 'user', content: 'x'}]};
    try {
      await assert.rejects(client('weir-unknown').chat.completions.create(ask), (error) => {
        assert.ok(error instanceof OpenAI.AuthenticationError);
        assert.ok(!error.message.includes('weir-unknown'));
        return true;
      });
      assert.ok((await client('weir-test-key').chat.completions.create(ask)).choices.length);
      assert.deepEqual((await client('weir-test-key').models.list()).data.map((m) => m.id),
        ['toy-chat']);
      await assert.rejects(client('weir-test-key').embeddings.create(
        {model: 'toy-embed', input: 'x'}), OpenAI.PermissionDeniedError);
    } finally {
      await keyed.process.stop();
      other.remove();
    }
  });
});

describe('429', () => {
  test('the governor absorbs what would have been refused: one client call, no 429', async () => {
    const small = new Folder();
    const tight = await startEmulator(small, ['{unit: requests, amount: 5, per: 1s, enforce: sliding}']);
    const before_ = await startGateway(small, tight.port,
      {limits: '{rps: 5}', shaping: '{start: full}'});
    try {
      const client = new OpenAI({apiKey: 'x', baseURL: `http://127.0.0.1:${before_.port}/v1`,
        maxRetries: 0});
      const answers = await Promise.all(Array.from({length: 12}, () =>
        client.chat.completions.create({model: 'toy-chat', max_tokens: 3,
          messages: [{role: 'user', content: 'x'}]})));
      assert.equal(answers.length, 12);
      const counters = await (await fetch(
        `http://127.0.0.1:${tight.port}/emulator/v1/counters`)).json();
      assert.equal(counters.refused, 0);
    } finally {
      await before_.process.stop();
      await tight.process.stop();
      small.remove();
    }
  });

  test('a refusal of the provider is RateLimitError with headers, code and request id', async () => {
    const small = new Folder();
    const tight = await startEmulator(small, ['{unit: requests, amount: 1, per: 60s, enforce: sliding}']);
    const loose = await startGateway(small, tight.port, {retry: '{attempts: 1}'});
    try {
      const client = new OpenAI({apiKey: 'x', baseURL: `http://127.0.0.1:${loose.port}/v1`,
        maxRetries: 0});
      const ask = () => client.chat.completions.create({model: 'toy-chat', max_tokens: 3,
        messages: [{role: 'user', content: 'x'}]});
      await ask();
      await assert.rejects(ask(), (error) => {
        assert.ok(error instanceof OpenAI.RateLimitError);
        assert.equal(error.error.gateway_decision, 'admitted_then_provider_rejected');
        const seconds = Number(error.headers.get('retry-after'));
        assert.ok(seconds >= 1 && seconds <= 59 && Number.isInteger(seconds));
        assert.ok(error.headers.get('retry-after-ms'));
        assert.ok(error.requestID);
        assert.ok(!/billing|credit balance|quota exhausted|will reset at/i.test(error.message));
        return true;
      });
    } finally {
      await loose.process.stop();
      await tight.process.stop();
      small.remove();
    }
  });
});
