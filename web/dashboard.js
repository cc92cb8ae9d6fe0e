// SPDX-License-Identifier: Apache-2.0
// The dashboard: asks /admin/v1/overview each second and shows its numbers. Plain JavaScript, so
// that it needs no bundler; all text goes in through textContent, so that no name is ever markup.
'use strict';

const kEvery = 1000;
const kHistory = 300;

const byId = (id) => document.getElementById(id);

/** The token: from the address's fragment (then taken out of it), else from this tab's memory. */
function readToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get('token');
  if (given) {
    sessionStorage.setItem('weir-token', given);
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem('weir-token') || '';
}

/** An element with text and children; never with markup. */
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.class) made.className = options.class;
  if (options.text !== undefined) made.textContent = options.text;
  for (const [name, value] of Object.entries(options.data || {})) made.dataset[name] = value;
  made.append(...children);
  return made;
}

function svgElement(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const whole = (value) => Math.round(value).toLocaleString('en-US');
const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(2)} %` : '');
const secondsText = (value) => (value < 10 ? value.toFixed(1) : Math.round(value)) + ' s';

function showTotals(view, rate) {
  const totals = view.totals;
  byId('total-requests').textContent = whole(totals.requests);
  byId('total-answered').textContent = whole(totals.answered);
  byId('total-refused').textContent = whole(totals.refused);
  byId('total-provider-rejections').textContent = whole(totals.provider_rejections);
  byId('total-queued').textContent = whole(view.queued);
  byId('total-inflight').textContent = whole(view.inflight);
  byId('rate-requests').textContent = rate === null ? '' : `${rate.toFixed(1)}/s`;
  byId('share-answered').textContent = percent(totals.answered, totals.requests);
  byId('share-rejections').textContent = percent(totals.provider_rejections, totals.attempts);
  byId('build').textContent = `${view.version} (${view.commit})`;
  byId('notices').textContent = view.notices.join(' · ');
}

function meterView(meter) {
  const limit = Math.max(meter.limit, 1);
  const used = Math.min(meter.used / limit, 1);
  const pending = Math.min(meter.pending / limit, 1 - used);
  const bar = svgElement('svg', { viewBox: '0 0 100 4', preserveAspectRatio: 'none' });
  bar.append(
    svgElement('rect', { class: 'track', width: 100, height: 4 }),
    svgElement('rect', { class: 'used', width: 100 * used, height: 4 }),
    svgElement('rect', { class: 'reserved', x: 100 * used, width: 100 * pending, height: 4 }),
  );
  const held = meter.pending > 0 ? ` + ${whole(meter.pending)} reserved` : '';
  return element('div', { class: 'meter', data: { limiter: meter.limiter } },
    element('div', { class: 'row' },
      element('span', { text: meter.limiter }),
      element('span', { text: `${whole(meter.used)}${held} of ${whole(meter.limit)}` })),
    bar);
}

function factView(name, value, field) {
  return element('div', {}, element('dt', { text: name }),
    element('dd', { text: value, data: { field } }));
}

function showDeployments(deployments) {
  byId('deployments').replaceChildren(...deployments.map((each) =>
    element('article', { class: 'card', data: { deployment: each.name } },
      element('h3', { text: each.name }),
      element('div', { class: 'quiet', text: [each.provider, each.model, each.strategy,
        each.mode].filter(Boolean).join(' · ') }),
      element('dl', {},
        factView('In flight', whole(each.inflight), 'inflight'),
        factView('Requests', whole(each.requests), 'requests'),
        factView('Attempts', whole(each.attempts), 'attempts'),
        factView('429s', whole(each.provider_rejections), 'provider_rejections'),
        factView('Success', percent(each.succeeded, each.attempts) || '–', 'success')),
      ...each.meters.map(meterView))));
}

function showClasses(classes) {
  const cell = (value, field) => element('td', { text: value, data: { field } });
  byId('classes').tBodies[0].replaceChildren(...classes.map((each) =>
    element('tr', { data: { class: each.name } },
      element('td', { text: each.name }),
      cell(`${whole(each.depth)} of ${whole(each.max_depth)}`, 'depth'),
      cell(secondsText(each.oldest_seconds), 'oldest'),
      cell(whole(each.requests), 'requests'),
      cell(whole(each.answered), 'answered'),
      cell(whole(each.refused), 'refused'))));
}

const history_ = [];

function showChart() {
  const kWidth = 900;
  const kHeight = 180;
  const most = Math.max(1, ...history_.flatMap((at) => [at.answered, at.refused, at.queued]));
  const lines = ['answered', 'refused', 'queued'].map((series) => svgElement('polyline', {
    class: series,
    points: history_.map((at, index) => {
      const x = kWidth - (history_.length - 1 - index) * (kWidth / (kHistory - 1));
      const y = kHeight - 6 - (at[series] / most) * (kHeight - 16);
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    }).join(' '),
  }));
  byId('chart').replaceChildren(...lines);
  byId('chart-scale').textContent = ` · top of the chart: ${most.toFixed(1)}`;
}

let previous = null;

/** Notes one view for the chart; returns requests per second since the one before. */
function note(view) {
  const at = performance.now();
  const totals = view.totals;
  let rate = null;
  // Counters that fell belong to a process that was started anew.
  if (previous && totals.requests >= previous.totals.requests) {
    const passed = Math.max((at - previous.at) / 1000, 0.001);
    rate = (totals.requests - previous.totals.requests) / passed;
    history_.push({
      answered: (totals.answered - previous.totals.answered) / passed,
      refused: Math.max(totals.refused - previous.totals.refused, 0) / passed,
      queued: view.queued,
    });
    if (history_.length > kHistory) history_.shift();
  }
  previous = { at, totals };
  return rate;
}

function showState(text, kind) {
  byId('state').textContent = text;
  byId('state').className = `badge ${kind}`;
}

function askForToken() {
  byId('login').hidden = false;
  byId('content').hidden = true;
  showState('token needed', 'bad');
}

async function refresh() {
  const response = await fetch('/admin/v1/overview', {
    headers: { Authorization: `Bearer ${readToken()}` },
    cache: 'no-store',
  });
  if (response.status === 401) {
    askForToken();
    return;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  const view = await response.json();
  byId('login').hidden = true;
  byId('content').hidden = false;
  showTotals(view, note(view));
  showDeployments(view.deployments);
  showClasses(view.classes);
  showChart();
  showState(view.draining ? 'draining' : 'serving', view.draining ? 'bad' : 'good');
}

async function loop() {
  try {
    await refresh();
  } catch (error) {
    showState('not reachable', 'bad');
  }
  setTimeout(loop, kEvery);
}

byId('login').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem('weir-token', byId('token').value.trim());
  byId('token').value = '';
  refresh().catch(() => showState('not reachable', 'bad'));
});
loop();
