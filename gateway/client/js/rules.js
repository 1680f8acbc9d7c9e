/** The rules of a client of rollcall's WebSocket protocol: close codes and what follows, and waits. */

const REFRESH_LEAST = 1_000;

/** @typedef {"reconnect" | "new_token" | "stop"} Action what a client does after a close */

/** @type {Readonly<Record<number, {meaning: string, action: Action}>>} */
export const CLOSE_CODES = Object.freeze({
  1000: { meaning: "bye", action: "stop" },
  1001: { meaning: "gateway is going away", action: "reconnect" },
  1002: { meaning: "websocket protocol error", action: "stop" },
  1003: { meaning: "wrong frame kind for the subprotocol", action: "stop" },
  1005: { meaning: "closed without a code", action: "reconnect" },
  1006: { meaning: "connection lost", action: "reconnect" },
  1007: { meaning: "text is not UTF-8", action: "stop" },
  1008: { meaning: "against the gateway's policy", action: "stop" },
  1009: { meaning: "frame is too big", action: "stop" },
  1011: { meaning: "internal error of the gateway", action: "reconnect" },
  1012: { meaning: "gateway restarts", action: "reconnect" },
  1013: { meaning: "gateway cannot serve this now", action: "reconnect" },
  3001: { meaning: "hello came too late", action: "reconnect" },
  3002: { meaning: "heartbeat missed", action: "reconnect" },
  3004: { meaning: "client reads too slowly", action: "reconnect" },
  3005: { meaning: "token expired", action: "new_token" },
  3006: { meaning: "gateway has lost the mesh", action: "reconnect" },
  3007: { meaning: "too many frames", action: "reconnect" },
  3500: { meaning: "token refused", action: "stop" },
  3501: { meaning: "frame breaks the rules", action: "stop" },
  3502: { meaning: "kicked by another login", action: "stop" },
  3503: { meaning: "replaced by the same device", action: "stop" },
  3504: { meaning: "refused by policy", action: "stop" },
  3505: { meaning: "removed by an operator or revoked", action: "stop" },
});

/**
 * Says what a close code means and asks for. Of codes unknown to this version, 3500 to 3999 are
 * terminal and all others are worth another try.
 * @param {number} code
 * @returns {{meaning: string, action: Action}}
 */
export function closeMeaning(code) {
  const terminal = code >= 3500 && code <= 3999;
  return CLOSE_CODES[code] ?? { meaning: "unknown to this version", action: terminal ? "stop" : "reconnect" };
}

/**
 * The longest wait before a connection, in ms; the wait itself is drawn from 0 to it (full jitter).
 * @param {number} attempt connections in a row, before this one, that did not last
 * @param {number} [least]
 * @param {number} [most]
 */
export function backoffCeiling(attempt, least = 500, most = 30_000) {
  return Math.min(most, least * 2 ** attempt);
}

/**
 * How long to wait, in ms, with a token that is good for `left`: until `before` its end or later,
 * spread by chance (0 to 1) over half of that; half of what is left where that is less.
 * @param {number} left
 * @param {number} before
 * @param {number} chance
 */
export function refreshWait(left, before, chance) {
  return Math.max(left - before + (chance * before) / 2, left / 2, REFRESH_LEAST);
}

/**
 * Why a request failed. `code` is one of the protocol's error codes, or of this side:
 * "not_connected", "lost" (the connection ended before the answer).
 */
export class RollcallError extends Error {
  /**
   * @param {string} code
   * @param {string} [message]
   * @param {{retryable?: boolean, retryAfterMs?: number, uids?: string[]}} [hints] uids: whom the
   *   client may not watch
   */
  constructor(code, message, { retryable = false, retryAfterMs = 0, uids } = {}) {
    super(message || code);
    this.name = "RollcallError";
    this.code = code;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
    this.uids = uids;
  }
}

/**
 * Splits uids so that the watch of each part is no larger than what a gateway takes.
 * @param {string[]} uids
 * @param {number} [most] bytes; without it, nothing is split
 * @returns {string[][]}
 */
export function fitting(uids, most) {
  if (uids.length === 0) return [];
  const room = 64; // for type and id
  const bytes = new TextEncoder().encode(JSON.stringify(uids)).length + room;
  if (!most || bytes <= most || uids.length === 1) return [uids];
  const half = uids.length >> 1;
  return [...fitting(uids.slice(0, half), most), ...fitting(uids.slice(half), most)];
}

const STAMPS_SIZE = 10_000;

/**
 * The latest stamp told of each user, across sessions: another gateway may know a user as of an
 * earlier moment than the one before. Where they become too many all are forgotten.
 */
export class Stamps {
  #last = new Map();

  /** Gives those of users who are told nothing older than before; unknown has no stamp, and is. */
  fresh(users) {
    if (this.#last.size > STAMPS_SIZE) this.#last.clear();
    return users.filter(({ uid, stamp }) => {
      const last = this.#last.get(uid);
      if (!stamp) this.#last.delete(uid);
      else if (last && (stamp[0] - last[0] || stamp[1] - last[1]) < 0) return false;
      else this.#last.set(uid, stamp);
      return true;
    });
  }
}

/**
 * What the gateway said when it accepted the login: the fields of its `connected` frame.
 * @typedef {object} Session
 * @property {string} session
 * @property {string} node
 * @property {string} boot
 * @property {string} uid
 * @property {string} [device]
 * @property {string} [flag]
 * @property {"master" | "slave"} [level]
 * @property {number} [heartbeat_ms]
 * @property {number} [expires_at] unix seconds
 * @property {number} [max_bytes] the largest frame that the gateway takes
 */

/**
 * One change of the connection. `code`, `meaning`, `reason` and `action` say why a connection
 * ended; `delayMs` how long until the next attempt.
 * @typedef {object} State
 * @property {"connecting" | "connected" | "waiting" | "stopped"} phase
 * @property {Session} [session]
 * @property {number} [delayMs]
 * @property {number} [code]
 * @property {string} [meaning]
 * @property {string} [reason]
 * @property {Action} [action]
 */

/** @typedef {{id: string, from: string, payload: any}} Message */

/**
 * @typedef {object} User
 * @property {string} uid
 * @property {"online" | "offline" | "unknown"} state
 * @property {{device?: string, flag?: string, level?: string}[]} [devices]
 * @property {string} [reason]
 * @property {[number, number]} [stamp]
 */
