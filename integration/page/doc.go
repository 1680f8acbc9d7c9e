// Package page tests the demo's page in a real browser: what a colleague clicks on is clicked on, and
// what they see is read by the data-testid attributes that package cmd/app/page promises.
//
//	test --chromedp--> Chromium --HTTP, WebSocket--> rollcall demo (a process): gw-1, gw-2
//
// Without Chromium the tests are skipped, unless ROLLCALL_REQUIRE names it, as CI does.
package page
