package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// patience bounds what should show at once, on a busy machine.
const patience = 20 * time.Second

// chromium gives the browser's path, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if strings.Contains(os.Getenv("ROLLCALL_REQUIRE"), "chromium") {
		require.FailNow(t, "chromium is required by ROLLCALL_REQUIRE, and is not installed")
	}
	t.Skip("chromium is not installed")
	return ""
}

// startDemo gives the ports of a demo's two gateways.
func startDemo(t *testing.T) (ports []string) {
	t.Helper()
	demo := process.Start(t, "demo", "--listen", "127.0.0.1:0,127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin-listen", "")
	demo.Line("Ctrl-C")
	for _, m := range regexp.MustCompile(`http://127\.0\.0\.1:([0-9]+)/  \(gateway`).FindAllStringSubmatch(strings.Join(demo.Said(), "\n"), -1) {
		ports = append(ports, m[1])
	}
	require.Len(t, ports, 2)
	return ports
}

// browser is one tab of a browser of its own.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string // what the console has of errors
}

// openBrowser starts a browser with a fresh profile; it ends with the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, end := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(chromium(t)),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.WindowSize(1500, 1000),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true))
	t.Cleanup(end)
	b := &browser{t: t}
	b.ctx, _ = chromedp.NewContext(ctx) // ended by Cancel below
	var reading sync.WaitGroup
	t.Cleanup(func() {
		_ = chromedp.Cancel(b.ctx) // waits for the browser's end
		reading.Wait()
		if t.Failed() {
			t.Logf("console: %q", b.troubles)
		}
	})
	require.NoError(t, chromedp.Do(b.ctx)) // starts the browser
	console := chromedp.Console(b.ctx)
	reading.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				b.mu.Lock()
				b.troubles = append(b.troubles, fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
				b.mu.Unlock()
			}
		}
	})
	return b
}

// calm requires that the page has written no error to the console.
func (b *browser) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.troubles)
}

// do does actions within the patience of the test.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.NoError(b.t, err, "%s; the page shows:\n%s", what, text)
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.do("open "+url, chromedp.Navigate(url))
}

// sees waits for an element.
func (b *browser) sees(selector string) {
	b.t.Helper()
	b.do("see "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

// reads waits for an element and gives its text.
func (b *browser) reads(selector string) string {
	b.t.Helper()
	b.sees(selector)
	text, err := chromedp.Run(b.ctx, chromedp.TextContent(chromedp.CSS(selector)))
	require.NoError(b.t, err, selector)
	return text
}

// pane is one pane of the page.
type pane struct {
	b *browser
	n int
}

func (b *browser) pane(n int) pane { return pane{b, n} }

// part is the selector of one part of the pane, and of what is in it.
func (p pane) part(name, inside string) string {
	return fmt.Sprintf(`[data-testid="pane-%d-%s"]%s`, p.n, name, inside)
}

// fill sets a field, or chooses from a list.
func (p pane) fill(name, value string) {
	p.b.t.Helper()
	p.b.do("fill "+name, chromedp.SetValue(chromedp.CSS(p.part(name, "")), value))
}

func (p pane) click(name string) {
	p.b.t.Helper()
	p.b.do("click "+name, chromedp.Click(chromedp.CSS(p.part(name, ":enabled"))))
}

// login connects the pane with what stands in its form, and waits for the gateway named.
func (p pane) login(gateway string) {
	p.b.t.Helper()
	p.click("connect")
	require.Equal(p.b.t, "connected to "+gateway, p.b.reads(p.part("state", `[data-phase="connected"]`)))
}

// as fills the form. gateway is the index in the list.
func (p pane) as(uid, device, flag, level string, gateway int) {
	p.b.t.Helper()
	p.fill("uid", uid)
	p.fill("device", device)
	p.fill("flag", flag)
	p.fill("level", level)
	url, err := chromedp.Run(p.b.ctx, chromedp.Value(chromedp.CSS(p.part("gateway", fmt.Sprintf(" option:nth-child(%d)", gateway+1)))))
	require.NoError(p.b.t, err)
	p.fill("gateway", url)
}

// shows waits until the pane shows a user in a state.
func (p pane) shows(uid, state string) {
	p.b.t.Helper()
	p.b.sees(p.part("presence", fmt.Sprintf(` [data-uid="%s"][data-state="%s"] .dot[data-state="%s"]`, uid, state, state)))
}

// say sends a message.
func (p pane) say(to, text string) {
	p.b.t.Helper()
	p.fill("to", to)
	p.fill("text", text)
	p.click("send")
}

// closed waits until the pane stays closed with a code, and gives what it says of it.
func (p pane) closed(code int) string {
	p.b.t.Helper()
	p.b.sees(p.part("state", `[data-phase="stopped"]`))
	return p.b.reads(p.part("log", fmt.Sprintf(` [data-kind="closed"][data-code="%d"]`, code)))
}
