// SPDX-License-Identifier: Apache-2.0
// The admin page in a headless browser: what it shows is what /metrics says, within two seconds.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {chromium} from 'playwright-core';
import {Folder, metrics, startEmulator, startGateway, sum, until} from './processes.mjs';

test('the page shows the numbers of /metrics within 2 s', async () => {
  const folder = new Folder();
  const emulator = await startEmulator(folder, ['{unit: requests, amount: 40, per: 60s, enforce: sliding}']);
  const gateway = await startGateway(folder, emulator.port, {retry: '{attempts: 1}'});
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']});
  try {
    const page = await browser.newPage();
    const problems = [];
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    await page.goto(`http://127.0.0.1:${gateway.adminPort}/#token=test-admin-token`);
    await page.locator('[data-deployment="main"]').waitFor();   // the page is up and shows numbers
    const calls = 50;   // more than the provider allows: some are refused, and weir holds back the rest
    await Promise.all(Array.from({length: calls}, () =>
      fetch(`http://127.0.0.1:${gateway.port}/v1/chat/completions`, {method: 'POST',
        headers: {'content-type': 'application/json'},
        body: JSON.stringify({model: 'toy-chat', max_tokens: 2,
          messages: [{role: 'user', content: '<img src=x onerror=alert(1)>'}]})})
        .then((answer) => answer.text())));
    const series = await metrics(gateway.adminPort);
    const expected = {
      attempts: sum(series, 'weir_attempts_total', 'deployment="main"'),
      provider_rejections: sum(series, 'weir_provider_rejections_total', 'deployment="main"'),
      inflight: sum(series, 'weir_inflight', 'deployment="main"'),
    };
    assert.ok(expected.attempts > 40 && expected.attempts <= calls, `${expected.attempts} attempts`);
    assert.equal(expected.provider_rejections, expected.attempts - 40);
    const begun = Date.now();
    const shown = (field) => page.locator(`[data-deployment="main"] [data-field="${field}"]`).innerText();
    await until(async () => {
      for (const [field, value] of Object.entries(expected)) {
        if (Number((await shown(field)).replace(/[^0-9.]/g, '')) !== value) return false;
      }
      return true;
    }, 'the page shows the numbers of /metrics', 2000);
    assert.ok(Date.now() - begun <= 2000);
    assert.deepEqual(problems, []);
    if (process.env.WEIR_SCREENSHOT) await page.screenshot({path: process.env.WEIR_SCREENSHOT});
  } finally {
    await browser.close();
    await gateway.process.stop();
    await emulator.process.stop();
    folder.remove();
  }
});
