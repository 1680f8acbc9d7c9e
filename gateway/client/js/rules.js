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
