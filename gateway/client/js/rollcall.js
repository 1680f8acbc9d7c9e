/**
 * Client of rollcall's WebSocket protocol (subprotocol rollcall.v1.json), for browsers and Node,
 * without dependencies: this file and rules.js. It keeps one session of one device alive across
 * lost connections.
 *
 *     import { Client } from "./rollcall.js";
 *     const client = new Client({
 *       url: "ws://127.0.0.1:8080/ws",
 *       token: () => fetchToken(),
 *       onMessage: (m) => console.log(m.from, m.payload),
 *     });
 *     client.start();
 *     const reply = await client.send({ to: "bob", text: "hi" });
 *
 *                   token
 *     start() --> connecting --hello, connected--> connected --close code--> waiting | stopped
 *                     ^                                                         |
 *                     +-------------- backoff with full jitter -----------------+
 *
 * What a client promises:
 *  - a message (from, id) reaches onMessage once, as far as the last 1,000 tell; its ack goes out
 *    after onMessage has returned; nothing lost with a connection is replayed
 *  - the close code alone decides: reconnect, get a new token and reconnect, or stop
 *  - after 25 s (or 5/6 heartbeat) without a frame of its own it sends ping; after two heartbeats
 *    without a frame from the gateway it sends ping, and reconnects 5 s later
 *  - what is watched is watched again after a reconnect, and again when that is refused for the
 *    moment; what is refused for good is not watched any more, and onWatchRefused is told
 *  - onPresence gets nothing older than it got before, whichever gateway says it
 *  - a request is written at most once; when its connection ends first it fails with code "lost"
 *    and may or may not have been done
 *  - with refreshBeforeMs the session gets new tokens before the old ones end, and goes on; what
 *    fails is tried again in half of the time that is left
 */

import { RollcallError, Stamps, backoffCeiling, closeMeaning, fitting, refreshWait } from "./rules.js";

export { CLOSE_CODES, RollcallError, backoffCeiling, closeMeaning } from "./rules.js";

export const SUBPROTOCOL = "rollcall.v1.json";

const CONNECT_TIMEOUT = 15_000;
const PROBE_GRACE = 5_000;
const CLOSE_GRACE = 500; // for the close behind an error
const KEEPALIVE_MOST = 25_000;
const STABLE_AFTER = 10_000;
const RETRY_AFTER_MOST = 300_000;
const HEARTBEAT_DEFAULT = 30_000;
const SEEN_SIZE = 1000;
const TIMER_MOST = 86_400_000; // setTimeout takes 24 days at most
const REWATCH_LEAST = 1000;
const REWATCH_MOST = 30_000;

/** @typedef {import("./rules.js").Session} Session */
/** @typedef {import("./rules.js").State} State */
/** @typedef {import("./rules.js").Message} Message */
/** @typedef {import("./rules.js").User} User */

/**
 * @typedef {object} Options
 * @property {string} url such as ws://127.0.0.1:8080/ws
 * @property {string | (() => string | Promise<string>)} token asked for before the first
 *   connection and after each close with 3005; what it throws is tried again with backoff
 * @property {number} [refreshBeforeMs] how long before a token's end the next one is asked for and
 *   given to the running session; default: never, the session ends with 3005 and another begins
 * @property {string} [device]
 * @property {string} [flag] default: the gateway's
 * @property {"master" | "slave"} [level] default: slave
 * @property {string} [resume] this client's session before a restart of the program
 * @property {string} [name] name/version of the program, for people
 * @property {(message: Message) => void} [onMessage]
 * @property {(users: User[]) => void} [onPresence] watched users, at first and at each change; while
 *   the operator has watches rest they are unknown, with the reason "watch_off", and then as they are
 * @property {(refused: {uids: string[], error: RollcallError}) => void} [onWatchRefused] users whom
 *   the client may not watch any more, which comes out after a reconnect
 * @property {(state: State) => void} [onState]
 * @property {number} [backoffLeastMs] default 500
 * @property {number} [backoffMostMs] default 30,000
 * @property {typeof globalThis.WebSocket} [WebSocket] default: the global one
 * @property {() => number} [random] 0 to 1, for jitter
 */

/** Keeps one session alive between start() and stop(). */
export class Client {
  #options;
  #WebSocket;
  #phase = "stopped";
  #connection = null; // the Connection of the moment, from dialling to its end
  #token; // kept until it has expired
  #resume; // the last session's name
  #turn = 0; // grows with start and stop: what began in another turn is void
  #attempt = 0; // connections in a row that did not last
  #nextId = 1;
  #timer; // of the next attempt
  #freshness; // the timer of the next token

  #seen = new Set(); // of the last messages, oldest first
  #watched = new Set();
  #stamps = new Stamps();

  /** @param {Options} options */
  constructor(options) {
    if (!options.url) throw new TypeError("url is needed");
    if (options.token === undefined) throw new TypeError("token is needed");
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no global WebSocket here, as browsers and Node from 22 have: pass one as option");
    this.#options = options;
    this.#resume = options.resume;
  }

  /** Connects, and reconnects until stop() or a close code that says stop. */
  start() {
    if (this.#phase !== "stopped") return;
    this.#attempt = 0;
    this.#connect(++this.#turn);
  }

  /** Says goodbye. Requests without an answer fail with "lost". */
  stop() {
    if (this.#phase === "stopped") return;
    this.#turn++;
    clearTimeout(this.#timer);
    clearTimeout(this.#freshness);
    this.#connection?.end(1000, "bye");
    this.#connection = null;
    this.#report({ phase: "stopped" });
  }

  /** @returns {State["phase"]} */
  get phase() {
    return this.#phase;
  }

  /** @returns {Session | null} the session of the moment */
  get session() {
    return this.#connection?.session ?? null;
  }

  /**
   * Hands a JSON value to the backend and gives the backend's answer.
   * @param {any} payload
   * @param {{timeoutMs?: number}} [options] default 30 s
   * @returns {Promise<any>}
   */
  async send(payload, { timeoutMs = 30_000 } = {}) {
    const frame = { type: "send", payload: payload === undefined ? null : payload };
    return (await this.#request(frame, timeoutMs)).reply;
  }

  /**
   * Asks for the presence of uids, now and after each reconnect, until unwatch; onPresence gets
   * it. Without a connection it only takes note.
   * @param {string[]} uids
   */
  async watch(uids) {
    const added = uids.filter((uid) => !this.#watched.has(uid));
    added.forEach((uid) => this.#watched.add(uid));
    if (!this.session || uids.length === 0) return;
    try {
      await this.#request({ type: "watch", uids });
    } catch (error) {
      if (error.code === "lost") return; // the next session begins with it
      added.forEach((uid) => this.#watched.delete(uid));
      throw error;
    }
  }

  /**
   * Ends the watch of uids.
   * @param {string[]} uids
   */
  async unwatch(uids) {
    uids.forEach((uid) => this.#watched.delete(uid));
    if (this.session && uids.length > 0) await this.#request({ type: "unwatch", uids });
  }

  async #request(frame, timeoutMs = 30_000) {
    if (!this.session) throw new RollcallError("not_connected", "there is no session at the moment");
    return this.#connection.request({ ...frame, id: this.#id() }, timeoutMs);
  }

  #id() {
    return `c${this.#nextId++}`;
  }

  async #connect(turn) {
    this.#report({ phase: "connecting" });
    try {
      this.#token ??= await this.#fetchToken();
    } catch (error) {
      if (turn === this.#turn) this.#retry({ code: 1006, reason: `no token: ${error?.message ?? error}` });
      return;
    }
    if (turn !== this.#turn) return;
    try {
      this.#connection = new Connection(new this.#WebSocket(this.#options.url, [SUBPROTOCOL]), this.#hello(), {
        connected: (session, first) => this.#connected(session, first),
        message: (frame) => this.#message(frame),
        presence: (users) => this.#presence(users),
        stable: () => (this.#attempt = 0),
        lost: (code, reason, retryAfterMs) => this.#lost(code, reason, retryAfterMs),
      });
    } catch (error) {
      this.#report({ phase: "stopped", code: 1006, reason: String(error?.message ?? error), action: "stop" });
    }
  }

  async #fetchToken() {
    const { token } = this.#options;
    return typeof token === "function" ? token() : token;
  }

  /** Sets the timer of the next token, where the present one ends. */
  #keepFresh() {
    clearTimeout(this.#freshness);
    const { refreshBeforeMs, random = Math.random } = this.#options;
    const left = (this.session?.expires_at ?? 0) * 1000 - Date.now();
    if (!refreshBeforeMs || left <= 0) return; // where it has ended, the gateway says so too
    const wait = refreshWait(left, refreshBeforeMs, random());
    const act = () => (wait > TIMER_MOST ? this.#keepFresh() : this.#refresh(this.#connection));
    this.#freshness = setTimeout(act, Math.min(wait, TIMER_MOST));
  }

  async #refresh(connection) {
    try {
      const token = await this.#fetchToken();
      if (connection !== this.#connection) return;
      const { expires_at } = await this.#request({ type: "refresh", token });
      this.#token = token;
      if (connection.session) connection.session.expires_at = expires_at;
    } catch (error) {
      if (error?.code === "unsupported") return;
    }
    if (connection === this.#connection) this.#keepFresh();
  }

  #hello() {
    const { device, flag, level, name = "rollcall-js" } = this.#options;
    return { type: "hello", token: this.#token, device, flag, level, resume: this.#resume, client: name };
  }

  /** @param {boolean} first false where the gateway has changed its boot under the same socket */
  #connected(session, first) {
    this.#resume = session.session;
    if (first) {
      for (const uids of fitting([...this.#watched], session.max_bytes)) this.#rewatch(this.#connection, uids);
    }
    this.#keepFresh();
    this.#report({ phase: "connected", session });
  }

  /** Sees one watch that a session begins with through, as long as its connection lasts. */
  async #rewatch(connection, uids) {
    for (let pause = REWATCH_LEAST; uids.length > 0; pause = Math.min(2 * pause, REWATCH_MOST)) {
      try {
        await connection.request({ type: "watch", uids, id: this.#id() }, 30_000);
        const gone = uids.filter((uid) => !this.#watched.has(uid)); // unwatched while this was tried again
        if (gone.length > 0) connection.write({ type: "unwatch", uids: gone, id: this.#id() });
        return;
      } catch (error) {
        if (error.code === "lost" || connection !== this.#connection) return; // the next session begins with it
        if (error.retryable) await connection.pause(Math.max(error.retryAfterMs, pause));
        else this.#giveUp(error.code === "not_allowed" && error.uids?.length ? error.uids : uids, error);
        if (connection !== this.#connection) return;
        uids = uids.filter((uid) => this.#watched.has(uid));
      }
    }
  }

  #giveUp(uids, error) {
    uids.forEach((uid) => this.#watched.delete(uid));
    this.#call(this.#options.onWatchRefused, { uids, error });
  }

  #presence(users) {
    const fresh = this.#stamps.fresh(users);
    if (fresh.length > 0) this.#call(this.#options.onPresence, fresh);
  }

  #message({ id, from, payload, ack }) {
    if (this.#isNew(from, id)) this.#call(this.#options.onMessage, { id, from, payload });
    if (ack) this.#connection?.write({ type: "ack", acks: [ack] });
  }

  /** A message without an id cannot be told from others and counts as new. */
  #isNew(from, id) {
    if (!id) return true;
    const key = `${from}\u0000${id}`; // a uid holds no control characters
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    if (this.#seen.size > SEEN_SIZE) this.#seen.delete(this.#seen.values().next().value);
    return true;
  }

  #lost(code, reason, retryAfterMs) {
    this.#connection = null;
    clearTimeout(this.#freshness);
    const { action } = closeMeaning(code);
    if (action === "stop") {
      this.#turn++;
      this.#report({ phase: "stopped", code, reason, action });
      return;
    }
    if (action === "new_token") this.#token = undefined;
    this.#retry({ code, reason, action, retryAfterMs });
  }

  #retry({ code, reason, action = "reconnect", retryAfterMs = 0 }) {
    const { backoffLeastMs, backoffMostMs, random = Math.random } = this.#options;
    const jitter = random() * backoffCeiling(this.#attempt++, backoffLeastMs, backoffMostMs);
    const delayMs = Math.round(Math.min(retryAfterMs, RETRY_AFTER_MOST) + jitter);
    const turn = this.#turn;
    this.#timer = setTimeout(() => this.#connect(turn), delayMs);
    this.#report({ phase: "waiting", delayMs, code, reason, action });
  }

  #report(state) {
    this.#phase = state.phase;
    if (state.code) state.meaning = closeMeaning(state.code).meaning;
    this.#call(this.#options.onState, state);
  }

  /** An error of the application's callback is reported as uncaught, and costs nothing else. */
  #call(callback, argument) {
    try {
      callback?.(argument);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

/** One WebSocket from dialling to its end: hello, heartbeat, answers by id; reports its end once. */
class Connection {
  /** @type {Session | null} */
  session = null;

  #socket;
  #owner;
  #waiting = new Map(); // requests without an answer, by id
  #hint = {}; // the error frame that announced a close
  #pauses = new Set(); // timers of pause
  #timers = { connect: undefined, stable: undefined, silence: undefined, keepalive: undefined };

  constructor(socket, hello, owner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#arm("connect", CONNECT_TIMEOUT, () => this.#giveUp(1006, "no answer in time"));
    socket.onopen = () => socket.send(JSON.stringify(hello));
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onclose = (event) => this.#closed(event.code, event.reason);
    socket.onerror = () => this.#failed();
  }

  /** Ends the connection from this side, without a report. */
  end(code, reason) {
    for (const name of Object.keys(this.#timers)) clearTimeout(this.#timers[name]);
    for (const timer of this.#pauses) clearTimeout(timer);
    const socket = this.#socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {}; // some count an error that nobody takes as uncaught
    socket.close(code, reason);
    this.session = null;
    for (const { reject } of this.#waiting.values()) reject(new RollcallError("lost", "the connection ended before the answer"));
    this.#waiting.clear();
  }

  /** Writes a frame that nobody waits for. */
  write(frame) {
    if (this.#socket.readyState !== 1) return; // closing: its end is on the way
    this.#socket.send(JSON.stringify(frame));
    this.#keepAlive();
  }

  /** Waits; for good where the connection ends meanwhile. */
  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#pauses.delete(timer);
        resolve();
      }, ms);
      this.#pauses.add(timer);
    });
  }

  /** Writes a frame and gives the answer with its id. */
  request(frame, timeoutMs) {
    const bytes = new TextEncoder().encode(JSON.stringify(frame)).length;
    const most = this.session.max_bytes;
    if (most && bytes > most) {
      return Promise.reject(new RollcallError("too_large", `frame of ${bytes} bytes, the gateway takes ${most}`));
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(frame.id);
        reject(new RollcallError("timeout", `no answer in ${timeoutMs} ms`, { retryable: true }));
      }, timeoutMs);
      const settle = (how) => (value) => {
        clearTimeout(timer);
        how(value);
      };
      this.#waiting.set(frame.id, { resolve: settle(resolve), reject: settle(reject) });
      this.write(frame);
    });
  }

  get #heartbeat() {
    return this.session?.heartbeat_ms || HEARTBEAT_DEFAULT;
  }

  #keepAlive() {
    this.#arm("keepalive", Math.min(KEEPALIVE_MOST, (this.#heartbeat * 5) / 6), () => this.write({ type: "ping" }));
  }

  #arm(name, ms, act) {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(act, ms);
  }

  #receive(text) {
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      return; // cannot be read: costs nothing else
    }
    if (frame === null || typeof frame !== "object") return;
    if (frame.type === "connected") this.#connected(frame);
    if (this.session) this.#arm("silence", 2 * this.#heartbeat, () => this.#probe());
    switch (frame.type) {
      case "recv":
        return this.#owner.message(frame);
      case "presence":
        return this.#owner.presence(frame.users ?? []);
      case "error":
        if (frame.close || !this.session) this.#hint = frame;
        return this.#answer(frame);
      case "sent":
      case "ok":
      case "refreshed":
        return this.#answer(frame);
    }
  }

  #connected({ type, ...session }) {
    const first = !this.session;
    this.session = session;
    if (first) {
      clearTimeout(this.#timers.connect);
      this.#arm("stable", STABLE_AFTER, () => this.#owner.stable());
      this.#keepAlive();
    }
    this.#owner.connected(session, first);
  }

  #answer(frame) {
    const waiter = this.#waiting.get(frame.id);
    if (!waiter) return;
    this.#waiting.delete(frame.id);
    if (frame.type !== "error") return waiter.resolve(frame);
    waiter.reject(
      new RollcallError(frame.code, frame.message, {
        retryable: frame.retryable,
        retryAfterMs: frame.retry_after_ms,
        uids: frame.uids,
      }),
    );
  }

  /** Two heartbeats of silence: asks once more. */
  #probe() {
    this.write({ type: "ping" });
    this.#arm("silence", PROBE_GRACE, () => this.#giveUp(3002, "nothing from the gateway"));
  }

  /** A close follows and says more, but not in Node 20 and 22 where nobody listens at the address. */
  #failed() {
    if (!this.session) this.#arm("connect", CLOSE_GRACE, () => this.#giveUp(1006, "connection failed"));
  }

  #giveUp(code, reason) {
    this.end();
    this.#owner.lost(code, reason, this.#hint.retry_after_ms ?? 0);
  }

  #closed(code, reason) {
    const hint = this.#hint;
    if (code === 1006 && hint.close) [code, reason] = [hint.close, hint.message]; // the close frame was lost
    this.end();
    this.#owner.lost(code, reason ?? "", hint.retry_after_ms ?? 0);
  }
}
