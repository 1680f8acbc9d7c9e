package page_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestPage does on the page what the README says of it, and more: two users on two gateways talk,
// one device comes twice, another one takes its place, a third user comes in, one leaves.
func TestPage(t *testing.T) {
	b := openBrowser(t)
	ports := startDemo(t)
	begun := time.Now()
	b.open("http://127.0.0.1:" + ports[0] + "/")
	alice, bob := b.pane(1), b.pane(2)

	alice.login("gw-1")
	alice.shows("bob", "offline")
	bob.login("gw-2")
	alice.shows("bob", "online")
	bob.shows("alice", "online")

	alice.say("bob", "hello bob")
	require.Equal(t, "laptop-1 on gw-2 written", b.reads(alice.part("log", ` [data-kind="sent"] [data-result="written"]`)))
	require.Contains(t, b.reads(bob.part("log", ` [data-kind="received"][data-from="alice"]`)), "hello bob")
	bob.say("alice", "hello alice")
	require.Equal(t, "phone-1 on gw-1 written", b.reads(bob.part("log", ` [data-kind="sent"] [data-result="written"]`)))
	require.Contains(t, b.reads(alice.part("log", ` [data-kind="received"][data-from="bob"]`)), "hello alice")

	third := b.third()
	third.as("alice", "phone-1", "app", "master", 1)
	third.login("gw-2")
	require.Contains(t, alice.closed(3503), "replaced by the same device, stays closed")
	require.Equal(t, "3503 replaced by the same device", b.reads(alice.part("state", "")))
	bob.shows("alice", "online")

	alice.as("alice", "tablet-1", "app", "master", 0)
	alice.login("gw-1")
	require.Contains(t, third.closed(3502), "kicked by another login, stays closed")
	bob.shows("alice", "online")

	third.as("carol", "browser-1", "web", "slave", 0)
	third.login("gw-1")
	bob.shows("carol", "online")
	third.say("alice", "hello from carol")
	require.Equal(t, "tablet-1 on gw-1 written", b.reads(third.part("log", ` [data-result="written"]`)))

	bob.click("connect") // it says Disconnect now
	b.sees(bob.part("state", `[data-phase="idle"]`))
	alice.shows("bob", "offline")
	third.say("bob", "are you there?")
	require.Equal(t, "bob is offline: nobody reached", b.reads(third.part("log", ` [data-result="offline"]`)))
	b.calm()
	t.Logf("the whole of it took %v", time.Since(begun).Round(time.Millisecond))
}

// third adds a third pane.
func (b *browser) third() pane {
	b.t.Helper()
	b.do("add a pane", chromedp.Click(chromedp.CSS(`[data-testid="add-pane"]`)))
	p := b.pane(3)
	b.sees(p.part("uid", ""))
	return p
}

// TestPageByTheNameLocalhost opens the page by the other name of the machine: its sockets go to the
// gateways' addresses, which must take it as their own page.
func TestPageByTheNameLocalhost(t *testing.T) {
	b := openBrowser(t)
	ports := startDemo(t)
	b.open("http://localhost:" + ports[1] + "/#connect")
	require.Equal(t, "connected to gw-1", b.reads(b.pane(1).part("state", `[data-phase="connected"]`)))
	require.Equal(t, "connected to gw-2", b.reads(b.pane(2).part("state", `[data-phase="connected"]`)))
	b.pane(1).shows("bob", "online")
	b.calm()
}
