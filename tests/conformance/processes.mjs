// SPDX-License-Identifier: Apache-2.0
// Starts the real binary for the client tests: free loopback ports, a temporary folder, ended by id.
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {createInterface} from 'node:readline';

const WEIR = process.env.WEIR_BINARY ?? '../../build/release/apps/weir/weir';

export class Folder {
  path = mkdtempSync(join(tmpdir(), 'weir-test-'));
  write(name, text) {
    const path = join(this.path, name);
    writeFileSync(path, text);
    return path;
  }
  remove() { rmSync(this.path, {recursive: true, force: true}); }
}

export class Process {
  constructor(args) {
    this.lines = [];
    this.events = [];
    this.waiting = [];
    this.child = spawn(WEIR, args, {stdio: ['ignore', 'ignore', 'pipe']});
    this.ended = new Promise((resolve) => this.child.on('exit', (code) => {
      for (const waiter of this.waiting) waiter.reject(new Error(`exit ${code}: ${this.tail()}`));
      resolve(code);
    }));
    createInterface({input: this.child.stderr}).on('line', (line) => this.take(line));
  }
  tail() { return this.lines.slice(-20).join('\n'); }
  take(line) {
    this.lines.push(line);
    if (!line.startsWith('{')) return;
    const event = JSON.parse(line);
    this.events.push(event);
    this.waiting = this.waiting.filter((waiter) => {
      if (!waiter.matches(event)) return true;
      waiter.resolve(event);
      return false;
    });
  }
  event(name, members = {}) {
    const matches = (event) => event.event === name &&
      Object.entries(members).every(([key, value]) => event[key] === value);
    const found = this.events.find(matches);
    if (found) return Promise.resolve(found);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no event ${name}: ${this.tail()}`)), 20000);
      this.waiting.push({
        matches,
        resolve: (event) => { clearTimeout(timer); resolve(event); },
        reject: (error) => { clearTimeout(timer); reject(error); },
      });
    });
  }
  async port(members) {
    const event = await this.event('listening', members);
    return Number(event.address.split(':').pop());
  }
  async stop() {
    this.child.kill('SIGKILL');
    await this.ended;
  }
}

/** An emulator with these rules (YAML flow), on a free port. */
export async function startEmulator(folder, rules, extra = '') {
  const config = folder.write(`emulator-${rules.length}-${Math.floor(process.uptime() * 1e6)}.yaml`,
    `rules:\n${rules.map((rule) => `  - ${rule}\n`).join('')}` +
    `latency: {first_token: 5ms, per_output_token: 1ms}\n${extra}`);
  const process_ = new Process(['emulate', '--config', config, '--listen', '127.0.0.1:0',
    '--log-format', 'json']);
  return {process: process_, port: await process_.port()};
}

/** A gateway in front of it. */
export async function startGateway(folder, emulatorPort, {limits = '{}', shaping = '{start: full}',
  retry = '{attempts: 2}', auth = 'none', extra = ''} = {}) {
  const config = folder.write(`weir-${emulatorPort}.yaml`, `
server: {listen: '127.0.0.1:0'}
admin: {listen: '127.0.0.1:0', token: test-admin-token}
auth: ${auth}
providers:
  emulator: {kind: openai_compatible, base_url: 'http://127.0.0.1:${emulatorPort}/v1', api_key: sk-test}
deployments:
  main: {provider: emulator, limits: ${limits}, shaping: ${shaping}, retry: ${retry}}
models:
  toy-chat: {deployments: [{to: main}]}
  toy-embed: {deployments: [{to: main}]}
${extra}`);
  const process_ = new Process(['serve', '--config', config, '--log-format', 'json']);
  return {
    process: process_,
    port: await process_.port({plane: 'data'}),
    adminPort: await process_.port({plane: 'admin'}),
  };
}

export async function until(condition, what, deadlineMs = 20000) {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The metrics of a gateway: a map from series to value. */
export async function metrics(adminPort) {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const found = new Map();
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const cut = line.lastIndexOf(' ');
    found.set(line.slice(0, cut), Number(line.slice(cut + 1)));
  }
  return found;
}

export function sum(series, name, label = '') {
  let total = 0;
  for (const [key, value] of series) {
    if (key.split('{')[0] === name && key.includes(label)) total += value;
  }
  return total;
}
