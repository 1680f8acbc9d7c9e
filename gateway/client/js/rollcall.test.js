import assert from "node:assert/strict";
import { test } from "node:test";

import { CLOSE_CODES, Client, RollcallError, backoffCeiling, closeMeaning } from "./rollcall.js";
import { refreshWait } from "./rules.js";

/** A WebSocket played by the test. */
class FakeWebSocket {
  static all = [];
  sent = [];
  readyState = 0;
  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    FakeWebSocket.all.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close(code, reason) {
    this.closed = { code, reason };
    this.readyState = 2;
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  receive(frame) {
    this.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }
  drop(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
  /** Takes the frames sent since the last call. */
  take() {
    return this.sent.splice(0);
  }
}

const settle = () => new Promise((resolve) => setImmediate(resolve)); // setImmediate is not mocked

/** A started client with mocked timers, from now on, and full (not random) jitter. */
async function begin(t, options = {}, now = 0) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now });
  FakeWebSocket.all.length = 0;
  const seen = { states: [], messages: [], users: [], tokens: 0 };
  const client = new Client({
    url: "ws://gateway/ws",
    token: () => `token-${++seen.tokens}`,
    device: "phone-1",
    flag: "app",
    level: "master",
    WebSocket: FakeWebSocket,
    random: () => 1,
    onState: (s) => seen.states.push(s),
    onMessage: (m) => seen.messages.push(m),
    onPresence: (u) => seen.users.push(...u),
    ...options,
  });
  t.after(() => client.stop());
  client.start();
  await settle();
  return { client, seen, tick: (ms) => t.mock.timers.tick(ms) };
}

/** The newest socket, logged in. */
function login(session = "s1", more = {}) {
  const ws = FakeWebSocket.all.at(-1);
  ws.open();
  const [hello] = ws.take();
  ws.receive({ type: "connected", session, node: "gw-1", boot: "b", uid: "alice", heartbeat_ms: 30000, max_bytes: 1000, ...more });
  return { ws, hello };
}

const sockets = () => FakeWebSocket.all.length;

test("hello and connected", async (t) => {
  const { client, seen } = await begin(t, { resume: "before" });
  assert.equal(client.phase, "connecting");
  assert.equal(client.session, null);
  const { ws, hello } = login();
  assert.deepEqual(ws.protocols, ["rollcall.v1.json"]);
  assert.deepEqual(hello, {
    type: "hello",
    token: "token-1",
    device: "phone-1",
    flag: "app",
    level: "master",
    resume: "before",
    client: "rollcall-js",
  });
  assert.equal(client.session.node, "gw-1");
  assert.deepEqual(seen.states.map((s) => s.phase), ["connecting", "connected"]);
  client.start();
  assert.equal(sockets(), 1, "a second start changes nothing");
});

test("an error without a close, as Node's WebSocket has it where nobody listens", async (t) => {
  const { seen, tick } = await begin(t);
  FakeWebSocket.all[0].onerror({});
  tick(500);
  assert.equal(seen.states.at(-1).phase, "waiting");
  assert.equal(seen.states.at(-1).reason, "connection failed");
  tick(500);
  await settle();
  const { ws } = login();
  FakeWebSocket.all[0].onerror({}); // what the old socket still says is of no interest
  ws.onerror({});
  tick(500);
  assert.equal(seen.states.at(-1).phase, "connected", "it stands until its close comes");
});

test("every close code: reconnect, new token or stop", async (t) => {
  for (const code of [...Object.keys(CLOSE_CODES).map(Number), 3599, 4000]) {
    await t.test(String(code), async (t) => {
      const { client, seen, tick } = await begin(t);
      const { ws } = login();
      ws.drop(code, "because");
      const { action, meaning } = closeMeaning(code);
      const state = seen.states.at(-1);
      assert.deepEqual([state.code, state.reason, state.meaning, state.action], [code, "because", meaning, action]);
      assert.equal(client.session, null);
      tick(30_000);
      await settle();
      if (action === "stop") {
        assert.equal(client.phase, "stopped");
        assert.equal(sockets(), 1);
        return;
      }
      assert.equal(sockets(), 2);
      const { hello } = login("s2");
      assert.equal(hello.resume, "s1");
      assert.equal(hello.token, action === "new_token" ? "token-2" : "token-1");
    });
  }
});

test("unknown close codes", () => {
  assert.equal(closeMeaning(3599).action, "stop");
  assert.equal(closeMeaning(3499).action, "reconnect");
  assert.equal(closeMeaning(4000).action, "reconnect");
  assert.equal(closeMeaning(1014).action, "reconnect");
});

test("backoff: full jitter, doubling, bounded, short again after a session that lasted", async (t) => {
  assert.deepEqual([0, 1, 2, 5, 6, 7, 100].map((n) => backoffCeiling(n)), [500, 1000, 2000, 16000, 30000, 30000, 30000]);
  let draw = 1;
  const { seen, tick } = await begin(t, { random: () => draw });
  const delay = async () => {
    FakeWebSocket.all.at(-1).drop(1012);
    const { delayMs } = seen.states.at(-1);
    tick(delayMs);
    await settle();
    return delayMs;
  };
  assert.equal(await delay(), 500);
  assert.equal(await delay(), 1000);
  draw = 0;
  assert.equal(await delay(), 0);
  draw = 0.5;
  assert.equal(await delay(), 2000);
  draw = 1;
  login();
  tick(9_000);
  assert.equal(await delay(), 8000, "a session of 9 s does not count as lasting");
  login("s2");
  tick(10_000);
  assert.equal(await delay(), 500);
});

test("retry_after_ms is the least", async (t) => {
  const { seen, tick } = await begin(t, { random: () => 0 });
  const ws = FakeWebSocket.all[0];
  ws.open();
  ws.receive({ type: "error", code: "unavailable", retryable: true, retry_after_ms: 4000, close: 1013 });
  ws.drop(1013, "no NATS");
  assert.equal(seen.states.at(-1).delayMs, 4000);
  tick(3999);
  await settle();
  assert.equal(sockets(), 1);
  tick(1);
  await settle();
  assert.equal(sockets(), 2);
  FakeWebSocket.all[1].drop(1013);
  assert.equal(seen.states.at(-1).delayMs, 0, "a hint is for one close");
});

test("a swallowed close frame: the error frame before it counts", async (t) => {
  const { client, seen } = await begin(t);
  const { ws } = login();
  ws.receive({ type: "error", code: "not_allowed", message: "another login", close: 3502 });
  ws.drop(1006);
  assert.equal(client.phase, "stopped");
  assert.deepEqual([seen.states.at(-1).code, seen.states.at(-1).reason], [3502, "another login"]);
});

test("messages: once, acked after the callback, across sessions", async (t) => {
  const { seen, tick } = await begin(t);
  let { ws } = login();
  ws.receive({ type: "recv", id: "m1", from: "bob", payload: { n: 1 }, ack: 17 });
  ws.receive({ type: "recv", id: "m1", from: "bob", payload: { n: 1 }, ack: 18 });
  ws.receive({ type: "recv", id: "m1", from: "eve", payload: null });
  assert.deepEqual(seen.messages, [
    { id: "m1", from: "bob", payload: { n: 1 } },
    { id: "m1", from: "eve", payload: null },
  ]);
  assert.deepEqual(ws.take(), [{ type: "ack", acks: [17] }, { type: "ack", acks: [18] }]);
  ws.drop(1012);
  tick(500);
  await settle();
  ({ ws } = login("s2"));
  ws.receive({ type: "recv", id: "m1", from: "bob", payload: 1, ack: 1 });
  assert.equal(seen.messages.length, 2);
  assert.deepEqual(ws.take(), [{ type: "ack", acks: [1] }]);
  for (let i = 0; i < 999; i++) ws.receive({ type: "recv", id: `x${i}`, from: "bob", payload: i });
  ws.receive({ type: "recv", id: "m1", from: "bob", payload: 1 });
  assert.equal(seen.messages.length, 2 + 999 + 1, "1,000 messages ago is forgotten");
});

test("connected again: new values, no second watch", async (t) => {
  const { client, seen, tick } = await begin(t);
  await client.watch(["bob"]);
  const { ws } = login();
  assert.deepEqual(ws.take().map((f) => f.type), ["watch"]);
  ws.receive({ type: "connected", session: "s1b", node: "gw-1", boot: "b2", uid: "alice", heartbeat_ms: 30000 });
  assert.equal(client.session.boot, "b2");
  assert.equal(seen.states.at(-1).phase, "connected");
  assert.deepEqual(ws.take(), []);
  ws.drop(1012);
  tick(500);
  await settle();
  assert.equal(login("s2").hello.resume, "s1b");
});

test("send: answers by id, refusals, limits, loss", async (t) => {
  const { client, tick } = await begin(t);
  await assert.rejects(client.send(1), { code: "not_connected" });
  const { ws } = login();
  const [one, two] = [client.send("1"), client.send("2")];
  const [first, second] = ws.take();
  assert.deepEqual(first, { type: "send", id: first.id, payload: "1" });
  ws.receive({ type: "sent", id: second.id, reply: { to: 2 } });
  ws.receive({ type: "sent", id: first.id, reply: { to: 1 } });
  assert.deepEqual([await one, await two], [{ to: 1 }, { to: 2 }]);

  const refused = client.send(3);
  ws.receive({ type: "error", id: ws.take()[0].id, code: "no_backend", message: "nobody", retryable: true, retry_after_ms: 7 });
  await assert.rejects(refused, (e) => {
    assert.ok(e instanceof RollcallError);
    assert.deepEqual([e.code, e.message, e.retryable, e.retryAfterMs], ["no_backend", "nobody", true, 7]);
    return true;
  });
  await assert.rejects(client.send("é".repeat(600)), { code: "too_large" });

  const late = client.send(4, { timeoutMs: 1000 });
  tick(1000);
  await assert.rejects(late, { code: "timeout" });
  ws.receive({ type: "sent", id: ws.take()[0].id, reply: 1 }); // for nobody any more

  const lost = client.send(5);
  ws.drop(1012);
  await assert.rejects(lost, { code: "lost" });
});

test("watch: noted, refused, ended, and again after a reconnect", async (t) => {
  const { client, seen, tick } = await begin(t);
  await client.watch(["bob"]);
  let { ws } = login();
  assert.deepEqual(ws.take()[0].uids, ["bob"]);
  const users = [{ uid: "bob", state: "online", devices: [{ device: "d" }], stamp: [3, 4] }];
  ws.receive({ type: "presence", users });
  assert.deepEqual(seen.users, users);

  const more = client.watch(["carol", "dave"]);
  ws.receive({ type: "ok", id: ws.take()[0].id });
  await more;
  const refused = client.watch(["bob", "eve"]);
  ws.receive({ type: "error", id: ws.take()[0].id, code: "not_allowed" });
  await assert.rejects(refused, { code: "not_allowed" });
  const ended = client.unwatch(["dave"]);
  assert.equal(ws.sent[0].type, "unwatch");
  ws.receive({ type: "ok", id: ws.take()[0].id });
  await ended;
  const lost = client.watch(["frank"]);
  ws.drop(1012);
  await lost;
  tick(500);
  await settle();
  ({ ws } = login("s2"));
  assert.deepEqual(ws.take().map((f) => [f.type, f.uids]), [["watch", ["bob", "carol", "frank"]]]);
});

test("watch after a reconnect: split, tried again, given up", async (t) => {
  const refused = [];
  const { client, tick } = await begin(t, { onWatchRefused: (r) => refused.push(r) });
  const uids = Array.from({ length: 30 }, (_, i) => "u".repeat(48) + i);
  await client.watch(uids);
  const { ws } = login(); // takes frames of 1,000 bytes
  const frames = ws.take();
  assert.equal(frames.length, 2);
  assert.deepEqual(frames.flatMap((f) => f.uids), uids);
  ws.receive({ type: "ok", id: frames[1].id });
  ws.receive({ type: "error", id: frames[0].id, code: "unavailable", retryable: true, retry_after_ms: 10 });
  await settle();
  tick(999);
  await settle();
  assert.equal(ws.sent.length, 0);
  tick(1);
  await settle();
  const [again] = ws.take();
  assert.deepEqual(again.uids, frames[0].uids);
  const bad = again.uids.slice(0, 2);
  ws.receive({ type: "error", id: again.id, code: "not_allowed", uids: bad });
  await settle();
  assert.deepEqual([refused[0].uids, refused[0].error.code], [bad, "not_allowed"]);
  const [rest] = ws.take();
  assert.deepEqual(rest.uids, again.uids.slice(2));
  ws.receive({ type: "error", id: rest.id, code: "watch_limit" });
  await settle();
  assert.equal(refused.length, 2);
  ws.drop(1012);
  tick(500);
  await settle();
  const { ws: next } = login("s2");
  assert.deepEqual(next.take().flatMap((f) => f.uids), frames[1].uids);
});

test("presence that is older than what was told says nothing", async (t) => {
  const { seen, tick } = await begin(t);
  const { ws } = login();
  const tell = (socket, state, stamp) => socket.receive({ type: "presence", users: [{ uid: "bob", state, stamp }] });
  tell(ws, "online", [3, 4]);
  ws.drop(1012);
  tick(500);
  await settle();
  const { ws: next } = login("s2");
  tell(next, "offline", [3, 3]);
  tell(next, "offline", [2, 9]);
  tell(next, "offline", [4, 0]);
  tell(next, "unknown");
  tell(next, "online", [3, 9]);
  assert.deepEqual(seen.users.map((u) => u.state), ["online", "offline", "unknown", "online"]);
});

test("watches rest for all: told so, also of who is new, and then how all are, without asking anew", async (t) => {
  const { client, seen, tick } = await begin(t);
  await client.watch(["bob"]);
  let { ws } = login();
  const accept = () => ws.take().forEach(({ id }) => ws.receive({ type: "ok", id }));
  const tell = (...users) => ws.receive({ type: "presence", users });
  const told = () => seen.users.splice(0).map((u) => [u.uid, u.state, u.reason]);
  const resting = { state: "unknown", reason: "watch_off" };
  accept();
  tell({ uid: "bob", state: "online", stamp: [3, 4] });
  tell({ uid: "bob", ...resting });
  assert.deepEqual(told(), [["bob", "online", undefined], ["bob", "unknown", "watch_off"]]);
  const more = client.watch(["carol"]);
  accept();
  await more;
  tell({ uid: "carol", ...resting });
  ws.drop(1012);
  tick(500);
  await settle();
  ({ ws } = login("s2"));
  assert.deepEqual(ws.sent.map((f) => [f.type, f.uids]), [["watch", ["bob", "carol"]]], "both are watched still");
  accept();
  tell({ uid: "bob", ...resting }, { uid: "carol", ...resting });
  assert.deepEqual(told(), ["carol", "bob", "carol"].map((uid) => [uid, "unknown", "watch_off"]));
  tell({ uid: "bob", state: "offline", stamp: [3, 6] }, { uid: "carol", state: "online", stamp: [3, 5] });
  assert.deepEqual(told(), [["bob", "offline", undefined], ["carol", "online", undefined]]);
  assert.deepEqual(ws.take(), [], "nobody asks anew");
});

test("a gateway that takes no watches: refused, given up, and not asked again", async (t) => {
  const refused = [];
  const { client, tick } = await begin(t, { onWatchRefused: (r) => refused.push([r.uids, r.error.code]) });
  await client.watch(["bob"]);
  const { ws } = login();
  const off = () => ws.receive({ type: "error", id: ws.take()[0].id, code: "watch_off" });
  off();
  await settle();
  assert.deepEqual(refused, [[["bob"], "watch_off"]]);
  const more = client.watch(["carol"]);
  off();
  await assert.rejects(more, { code: "watch_off", retryable: false });
  ws.drop(1012);
  tick(500);
  await settle();
  assert.deepEqual(login("s2").ws.sent, []);
});

test("silence: ping at 25 s, 50 s and 60 s, another connection at 65 s", async (t) => {
  const { client, seen, tick } = await begin(t);
  const { ws } = login();
  const pings = [];
  for (let second = 1; second < 65; second++) {
    tick(1000);
    if (ws.take().some((f) => f.type === "ping")) pings.push(second);
  }
  assert.deepEqual(pings, [25, 50, 60]);
  assert.equal(client.phase, "connected");
  tick(1000);
  assert.equal(client.phase, "waiting");
  assert.equal(seen.states.at(-1).code, 3002);
  assert.ok(ws.closed);
  tick(500);
  await settle();
  assert.equal(sockets(), 2);
  ws.drop(1006); // what the old socket still says is of no interest
  assert.equal(client.phase, "connecting");
});

test("a gateway that answers is never left, and both sides send within 30 s", async (t) => {
  const { client, tick } = await begin(t);
  const { ws } = login();
  for (let i = 0, quiet = 0; i < 3600; i++) {
    tick(1000);
    quiet++;
    for (const f of ws.take()) {
      assert.equal(f.type, "ping");
      ws.receive({ type: "pong" });
      quiet = 0;
    }
    assert.ok(quiet <= 30);
  }
  assert.equal(client.phase, "connected");
  assert.equal(sockets(), 1);
});

test("no answer to hello in 15 s", async (t) => {
  const { seen, tick } = await begin(t);
  const ws = FakeWebSocket.all[0];
  ws.open();
  tick(15_000);
  assert.equal(seen.states.at(-1).phase, "waiting");
  assert.ok(ws.closed);
  tick(500);
  await settle();
  assert.equal(sockets(), 2);
});

test("a token that cannot be had is tried again", async (t) => {
  let calls = 0;
  const token = async () => {
    if (++calls < 3) throw new Error("login service is down");
    return "t";
  };
  const { seen, tick } = await begin(t, { token });
  assert.match(seen.states.at(-1).reason, /login service is down/);
  tick(500);
  await settle();
  tick(1000);
  await settle();
  assert.equal(login().hello.token, "t");
});

test("stop: goodbye, requests fail, nothing comes after it; start begins anew", async (t) => {
  const { client, seen, tick } = await begin(t);
  const { ws } = login();
  const open = client.send(1);
  client.stop();
  await assert.rejects(open, { code: "lost" });
  assert.deepEqual(ws.closed, { code: 1000, reason: "bye" });
  assert.equal(client.phase, "stopped");
  ws.drop(1000);
  tick(100_000);
  await settle();
  assert.equal(sockets(), 1);
  assert.equal(seen.states.filter((s) => s.phase === "stopped").length, 1);
  client.start();
  await settle();
  assert.equal(login("s2").hello.resume, "s1");
});

test("stop while waiting and while the token is fetched", async (t) => {
  let give;
  const { client, tick } = await begin(t, { token: () => new Promise((resolve) => (give = resolve)) });
  client.stop();
  give("t");
  await settle();
  assert.equal(sockets(), 0);
  client.start();
  give("t");
  await settle();
  FakeWebSocket.all[0].drop(1006);
  client.stop();
  tick(100_000);
  await settle();
  assert.equal(sockets(), 1);
});

test("frames that cannot be read, and novelties, cost nothing else", async (t) => {
  const { seen } = await begin(t);
  const { ws } = login();
  for (const text of ["{", "null", "7", '"x"', '{"type":"novelty","id":"m0"}', '{"type":"sent","id":"c99"}']) ws.receive(text);
  ws.receive({ type: "recv", id: "m1", from: "bob", payload: 1, new_field: {} });
  assert.equal(seen.messages.length, 1);
});

test("what is needed is named", () => {
  assert.throws(() => new Client({ token: "t", WebSocket: FakeWebSocket }), /url/);
  assert.throws(() => new Client({ url: "ws://x", WebSocket: FakeWebSocket }), /token/);
});

test("a url that no WebSocket takes stops the client", async (t) => {
  class Refusing {
    constructor() {
      throw new SyntaxError("bad url");
    }
  }
  const { client, seen } = await begin(t, { WebSocket: Refusing });
  assert.equal(client.phase, "stopped");
  assert.match(seen.states.at(-1).reason, /bad url/);
});

const NOW = 1_790_000_000_000;
const inSeconds = (seconds) => NOW / 1000 + seconds;

/** A client with new tokens ten minutes before the end (full jitter: five). */
const beginFresh = (t, options = {}) => begin(t, { refreshBeforeMs: 600_000, ...options }, NOW);

/** What a socket has sent, without pings. */
const asked = (ws) => ws.take().filter((f) => f.type !== "ping");

test("a new token in time, for the session and for the next", async (t) => {
  const { client, tick } = await beginFresh(t);
  const { ws } = login("s1", { expires_at: inSeconds(3600), heartbeat_ms: 86_400_000 });
  tick(3_299_000);
  await settle();
  assert.deepEqual(asked(ws), []);
  tick(1_000);
  await settle();
  const [refresh] = asked(ws);
  assert.deepEqual([refresh.type, refresh.token], ["refresh", "token-2"]);
  ws.receive({ type: "refreshed", id: refresh.id, expires_at: inSeconds(7200) });
  await settle();
  assert.equal(client.session.expires_at, inSeconds(7200));
  tick(3_600_000);
  await settle();
  const [again] = asked(ws);
  assert.equal(again.token, "token-3");
  ws.receive({ type: "refreshed", id: again.id });
  await settle();
  tick(36_000_000);
  await settle();
  assert.deepEqual(asked(ws), [], "a token without an end");
  ws.drop(1006);
  tick(1_000);
  await settle();
  assert.equal(login("s2").hello.token, "token-3");
});

test("a token that fails is tried again in half of the time, and not after the end of all", async (t) => {
  let tokens = 0;
  const { client, tick } = await beginFresh(t, {
    token: () => {
      if (++tokens === 2) throw new Error("login service is down");
      return `token-${tokens}`;
    },
  });
  const { ws } = login("s1", { expires_at: inSeconds(20), heartbeat_ms: 86_400_000 });
  tick(10_000); // half: the token is shorter than refreshBeforeMs
  await settle();
  assert.equal(tokens, 2);
  assert.deepEqual(asked(ws), []);
  tick(5_000);
  await settle();
  const [refresh] = asked(ws);
  ws.receive({ type: "error", id: refresh.id, code: "unavailable", retryable: true });
  await settle();
  tick(2_500);
  await settle();
  assert.equal(asked(ws)[0].token, "token-4");
  client.stop();
  tick(100_000);
  await settle();
  assert.equal(tokens, 4);
});

test("no refresh: by default, without an end, and no second of a gateway that knows none", async (t) => {
  for (const [options, expires_at, want] of [[{ refreshBeforeMs: undefined }, inSeconds(60), 0], [{}, undefined, 0], [{}, inSeconds(60), 1]]) {
    await t.test(String(want), async (t) => {
      const { tick } = await beginFresh(t, options);
      const { ws } = login("s1", { expires_at, heartbeat_ms: 86_400_000 });
      let got = 0;
      for (let n = 0; n < 59; n++) {
        tick(1_000);
        await settle();
        for (const { id } of asked(ws)) ws.receive({ type: "error", id, code: "unsupported" }, got++);
      }
      assert.equal(got, want);
    });
  }
});

test("refreshWait", () => {
  assert.equal(refreshWait(3_600_000, 600_000, 0), 3_000_000);
  assert.equal(refreshWait(3_600_000, 600_000, 1), 3_300_000);
  assert.equal(refreshWait(300_000, 600_000, 0), 150_000);
  assert.equal(refreshWait(-5, 600_000, 0), 1_000);
});
