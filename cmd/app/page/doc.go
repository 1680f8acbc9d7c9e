// Package page is the demo's web page: a few users side by side, each a WebSocket client of its
// own, on a gateway of choice. The gateways serve it in demo mode only.
//
//	GET /            index.html      the page
//	GET /page.js     page.js         its behaviour
//	GET /style.css   style.css       its looks
//	GET /rollcall.js, /rules.js      the client, from gateway/client/js
//	GET /demo.json                   {"gateways":[{"node":"gw-1","url":"ws://127.0.0.1:8080/ws"}]}
//
// Nothing is inline and nothing comes from elsewhere, so that a strict Content-Security-Policy
// holds; sockets go to the listed gateways only. It starts no goroutine and keeps no state.
//
// What a browser test may rely on are the data-testid attributes: add-pane, and for pane N
// (counted from 1, never reused) pane-N, pane-N-uid, -gateway, -device, -flag, -level, -connect,
// -to, -text, -send, -log, -state, -presence, -remove. pane-N-state carries data-phase; log entries
// carry data-kind (sent, received, event, closed; the last with data-code, the close code), per-device
// results data-result, and presence entries data-uid and data-state. data-phase is idle, connecting,
// connected, waiting or stopped. The page opened with #connect connects its panes at once.
package page
