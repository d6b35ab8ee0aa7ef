// What the suites need: where to go, and what the simulated provider saw.
import assert from 'node:assert/strict';

export const url = process.env.E2E_URL;
export const key = process.env.E2E_KEY;
export const slowKey = process.env.E2E_SLOW_KEY;
export const spentKey = process.env.E2E_SPENT_KEY;
export const direct = process.env.E2E_URL === process.env.E2E_PROVIDER;

export const fiveWords = 'the budget of every team';

// counting returns a fetch that notes when it was called and what came back.
export function counting() {
  const tries = [];
  const watched = async (input, init) => {
    const one = { at: performance.now() };
    tries.push(one);
    const response = await fetch(input, init);
    one.status = response.status;
    one.wait = response.headers.get('retry-after-ms');
    one.seconds = response.headers.get('retry-after');
    one.limit = response.headers.get('x-llmgw-limited-by');
    return response;
  };
  return { tries, fetch: watched };
}

// checkOneRetry checks that a call was refused once, and that its second try, not before
// the time it was told, went through.
export function checkOneRetry(tries) {
  assert.equal(tries.length, 2, JSON.stringify(tries));
  const told = Number(tries[0].wait);
  const waited = tries[1].at - tries[0].at;
  const latest = Math.max(told, 1000 * Number(tries[0].seconds)) * 1.2 + 30_000; // some add a jitter, and a busy machine is late
  assert.ok(told > 0 && waited >= told - 1 && waited < latest, `told ${told} ms, came back after ${waited} ms`);
}

// ended waits until the provider has seen the end of the
// last request for model, and returns it.
export async function ended(model) {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const stats = await (await fetch(`${process.env.E2E_PROVIDER}/sim/stats`)).json();
    const last = stats.last.filter((seen) => seen.model === model).at(-1);
    if (last?.outcome) return last;
    if (performance.now() > deadline) throw new Error(`the provider still serves ${model}: ${JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
