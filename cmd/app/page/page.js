// The demo's page: panes side by side, each with a Client of its own.
//
//   Pane      one user's form, connection, presence, log; owns its DOM and its Client
//   board     the panes; tells each whom to watch, which are the users of the others
//
// The data-testid attributes are promised in page.go.
import { Client } from "/rollcall.js";

const board = new Map(); // number -> Pane
let gateways = [];
let lastNumber = 0;

const $ = (id) => document.getElementById(id);

/** Makes an element: props are set as properties, data-* by `data`. */
function make(tag, { data = {}, ...props } = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  Object.assign(e.dataset, data);
  e.append(...children);
  return e;
}

const clock = () => new Date().toLocaleTimeString([], { hour12: false });

/** Cuts a long opaque name for people; the title has it whole. */
const short = (s) => (s.length > 12 ? `${s.slice(0, 6)}…${s.slice(-4)}` : s);

class Pane {
  #client = null;
  #watched = new Set();
  #presence = new Map(); // uid -> User, as the gateway told
  #countdown = 0;

  constructor(number, { uid, gateway, device, flag, level }) {
    this.number = number;
    this.element = $("pane").content.firstElementChild.cloneNode(true);
    this.element.dataset.testid = `pane-${number}`;
    this.part = {};
    for (const e of this.element.querySelectorAll("[data-part]")) {
      this.part[e.dataset.part] = e;
      e.dataset.testid = `pane-${number}-${e.dataset.part}`;
    }
    const { part } = this;
    part.gateway.append(...gateways.map((g) => make("option", { value: g.url, textContent: g.node })));
    part.gateway.selectedIndex = gateway % Math.max(1, gateways.length);
    Object.assign(part.uid, { value: uid });
    Object.assign(part.device, { value: device });
    Object.assign(part.flag, { value: flag });
    Object.assign(part.level, { value: level });
    this.#listen();
    this.#showName();
    this.#setFields(true);
    this.#hintIfEmpty();
  }

  #listen() {
    const { part } = this;
    part.connect.addEventListener("click", () => (this.#client ? this.disconnect() : this.connect()));
    part.login.addEventListener("submit", (event) => {
      event.preventDefault(); // Enter in a field
      if (!this.#client) this.connect();
    });
    part.compose.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    part.uid.addEventListener("input", () => {
      this.#showName();
      refresh();
    });
    part.remove.addEventListener("click", () => removePane(this.number));
  }

  get uid() {
    return this.part.uid.value.trim();
  }

  get connected() {
    return this.#client?.phase === "connected";
  }

  connect() {
    const { part } = this;
    if (!this.uid) return part.uid.focus();
    this.#showName();
    refresh(); // a script may have set the name without an event
    this.#client = new Client({
      url: part.gateway.value,
      token: this.uid, // authentication "insecure": the token is the uid
      device: part.device.value.trim(),
      flag: part.flag.value,
      level: part.level.value,
      name: "rollcall-demo/1",
      onState: (s) => this.#showState(s),
      onMessage: (m) => this.#showReceived(m),
      onPresence: (users) => this.#showUsers(users),
    });
    this.#watched.clear();
    this.watch(otherUsers(this));
    this.#client.start();
  }

  disconnect() {
    this.#client?.stop();
  }

  /** Watches exactly these users from now on. */
  watch(uids) {
    const wanted = new Set(uids);
    const added = [...wanted].filter((uid) => !this.#watched.has(uid));
    const ended = [...this.#watched].filter((uid) => !wanted.has(uid));
    this.#watched = wanted;
    for (const uid of this.#presence.keys()) if (!wanted.has(uid)) this.#presence.delete(uid);
    this.#drawPresence();
    if (!this.#client) return;
    if (ended.length) this.#client.unwatch(ended).catch(() => {}); // the next session watches none of them
    if (added.length) this.#client.watch(added).catch((e) => this.#event(`Watch refused: ${e.message}`));
  }

  // What the connection says.

  #showState(s) {
    clearInterval(this.#countdown);
    const { state } = this.part;
    state.dataset.phase = s.phase;
    state.title = s.reason ?? "";
    switch (s.phase) {
      case "connecting":
        state.textContent = "connecting…";
        break;
      case "connected":
        this.#showConnected(s.session);
        break;
      case "waiting":
        this.#closed(s, "reconnects");
        this.#count(s);
        break;
      case "stopped":
        this.#stopped(s);
    }
    if (s.phase !== "connected") this.#presence.clear();
    this.#setFields(s.phase === "stopped");
    this.#drawPresence();
  }

  #showConnected(session) {
    const { state } = this.part;
    state.textContent = `connected to ${session.node}`;
    state.title = `session ${session.session}`;
    const level = session.level ? `, ${session.level}` : "";
    const device = session.device || "no device";
    this.#event(`Connected to ${session.node} as ${device} (${session.flag}${level})`, `session ${short(session.session)}`);
  }

  #stopped(s) {
    this.#client = null;
    const { state } = this.part;
    if (!s.code) {
      state.dataset.phase = "idle";
      state.textContent = "not connected";
      this.#event("Disconnected");
      return;
    }
    state.textContent = `${s.code} ${s.meaning}`;
    this.#closed(s, "stays closed");
  }

  /** Counts down to the next attempt, for the eye. */
  #count({ delayMs, code, meaning }) {
    const until = performance.now() + delayMs;
    const show = () => {
      const seconds = Math.max(0, (until - performance.now()) / 1000).toFixed(1);
      this.part.state.textContent = `retry in ${seconds} s · ${code} ${meaning}`;
    };
    show();
    this.#countdown = setInterval(show, 100);
  }

  /** The same end again, such as of attempts while a gateway is down, counts up in its entry. */
  #closed({ code, meaning, action, reason }, then) {
    const last = this.part.log.lastElementChild;
    if (last?.dataset.code === String(code) && last.dataset.reason === reason) {
      last.dataset.times = 1 + Number(last.dataset.times);
      last.querySelector(".again").textContent = `${last.dataset.times} times`;
      return;
    }
    const said = reason && reason !== meaning ? make("q", { textContent: reason }) : "";
    const data = { code, action, reason, times: 1 };
    this.#entry("closed", data, make("span", { className: "again" }), make("b", { textContent: code }), ` ${meaning}, ${then} `, said);
  }

  // Presence.

  #showUsers(users) {
    for (const u of users) if (this.#watched.has(u.uid)) this.#presence.set(u.uid, u);
    this.#drawPresence();
  }

  #drawPresence() {
    const items = [...this.#watched].map((uid) => this.#presenceItem(uid, this.#presence.get(uid)));
    this.part.presence.replaceChildren(...items);
  }

  #presenceItem(uid, user) {
    const state = user?.state ?? "none";
    const devices = user?.devices?.map((d) => d.device || d.flag || "a device") ?? [];
    const what = devices.length > 0 ? devices.join(", ") : user ? user.state : "";
    return make(
      "li",
      { data: { uid, state }, title: user?.reason ? `last change: ${user.reason}` : "" },
      make("i", { className: "dot", data: { state } }),
      make("b", { textContent: uid }),
      make("span", { textContent: what }),
    );
  }

  // Messages.

  async #send() {
    const { to, text } = this.part;
    if (!this.connected || !to.value.trim() || !text.value) return;
    const body = { to: to.value.trim(), text: text.value };
    text.value = "";
    const results = make("ul", { className: "results" }, make("li", { textContent: "sending…", data: { result: "sending" } }));
    this.#entry("sent", {}, make("p", { className: "meta", textContent: `to ${body.to} · ${clock()}` }), make("p", { className: "bubble", textContent: body.text }), results);
    try {
      results.replaceChildren(...outcome(await this.#client.send(body)));
    } catch (error) {
      results.replaceChildren(make("li", { textContent: `${error.code}: ${error.message}`, data: { result: "error" } }));
    }
    this.#scroll();
  }

  #showReceived({ from, payload }) {
    const text = typeof payload?.text === "string" ? payload.text : JSON.stringify(payload);
    this.#entry("received", { from }, make("p", { className: "meta", textContent: `${from || "backend"} · ${clock()}` }), make("p", { className: "bubble", textContent: text }));
  }

  #event(text, detail = "") {
    this.#entry("event", {}, text, make("small", { textContent: detail }));
  }

  #entry(kind, data, ...children) {
    const { log } = this.part;
    log.querySelector("[data-kind=hint]")?.remove();
    log.append(make("li", { data: { kind, ...data } }, ...children));
    while (log.children.length > 200) log.firstElementChild.remove();
    this.#scroll();
  }

  #scroll() {
    this.part.log.scrollTop = this.part.log.scrollHeight;
  }

  #hintIfEmpty() {
    this.part.log.append(make("li", { data: { kind: "hint" }, textContent: "Connect, and what happens to this session shows here." }));
  }

  // The form.

  #showName() {
    const { avatar, uid } = this.part;
    avatar.textContent = [...this.uid][0]?.toUpperCase() ?? "?";
    avatar.dataset.hue = [...this.uid].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 997, 0) % 6;
    uid.setAttribute("aria-invalid", String(!this.uid));
  }

  /** While there is a connection, or one is on the way, its settings stand. */
  #setFields(free) {
    const { part } = this;
    for (const name of ["uid", "gateway", "device", "flag", "level"]) part[name].disabled = !free;
    part.connect.textContent = free ? "Connect" : "Disconnect";
    part.connect.classList.toggle("primary", free);
    part.send.disabled = part.text.disabled = !this.connected;
  }
}

/** Shows what the chat backend answered: whom the push reached, device by device. */
function outcome(reply) {
  if (!Array.isArray(reply?.results)) return [make("li", { textContent: JSON.stringify(reply), data: { result: "reply" } })];
  return reply.results.flatMap(({ uid, state, routes = [] }) => {
    if (routes.length === 0) {
      return [make("li", { data: { result: state ?? "unknown" } }, make("b", { textContent: uid }), ` is ${state}: nobody reached`)];
    }
    return routes.map((r) =>
      make("li", { data: { result: r.result }, title: `session ${r.session}` }, make("b", { textContent: r.device || "no device" }), ` on ${r.node} `, make("em", { textContent: r.result.replace("_", " ") })),
    );
  });
}

/** The users of the other panes, without this pane's own. */
function otherUsers(pane) {
  const uids = new Set([...board.values()].map((p) => p.uid).filter(Boolean));
  uids.delete(pane.uid);
  return [...uids];
}

/** After a change of users: whom to watch, and whom to offer as addressee. */
function refresh() {
  for (const pane of board.values()) {
    const others = otherUsers(pane);
    pane.watch(others);
    if (!pane.part.to.value && others.length > 0) pane.part.to.value = others[0];
  }
  const uids = new Set([...board.values()].map((p) => p.uid).filter(Boolean));
  $("users").replaceChildren(...[...uids].map((value) => make("option", { value })));
}

const cast = [
  { uid: "alice", device: "phone-1", flag: "app", level: "master" },
  { uid: "bob", device: "laptop-1", flag: "desktop", level: "master" },
  { uid: "carol", device: "browser-1", flag: "web", level: "slave" },
  { uid: "alice", device: "tablet-1", flag: "web", level: "slave" },
];

function addPane() {
  const number = ++lastNumber;
  const who = cast[number - 1] ?? { uid: `user-${number}`, device: "phone-1", flag: "app", level: "master" };
  const pane = new Pane(number, { ...who, gateway: number - 1 });
  board.set(number, pane);
  $("panes").append(pane.element);
  refresh();
  return pane;
}

function removePane(number) {
  const pane = board.get(number);
  board.delete(number);
  pane.disconnect();
  pane.element.remove();
  refresh();
}

async function main() {
  const response = await fetch("/demo.json");
  if (!response.ok) throw new Error(`HTTP status ${response.status}`);
  ({ gateways } = await response.json());
  if (gateways.length === 0) throw new Error("it lists no gateway");
  $("add").addEventListener("click", () => addPane().part.uid.focus());
  const panes = [addPane(), addPane()];
  if (location.hash === "#connect") panes.forEach((pane) => pane.connect());
}

main().catch((error) => {
  $("trouble").hidden = false;
  $("trouble").textContent = `The demo's list of gateways cannot be read from /demo.json: ${error.message}. Is the demo still running?`;
});
