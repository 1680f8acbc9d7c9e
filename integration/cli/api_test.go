package cli_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
)

// The calls of the service over HTTP, as a process of its own serves them, and over HTTPS.
func TestAPIOverHTTP(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	s.authority("a-1")
	cert, key := certificate(t)
	for scheme, flags := range map[string][]string{"http": nil, "https": {"--api-tls-cert", cert, "--api-tls-key", key}} {
		env := append(s.as(deploy.Delivery), "ROLLCALL_API_KEY=one-key-of-two-keys,another-one-of-two")
		d := process.StartWith(t, env, append([]string{"delivery", "--node", "d-" + scheme, "--api-listen", "127.0.0.1:0"}, flags...)...)
		_, at, _ := strings.Cut(d.Line("API listens"), "at=")
		at, _, _ = strings.Cut(at, " ")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // a certificate of its own
		for key, want := range map[string]int{"one-key-of-two-keys": 200, "another-one-of-two": 200, "one-key-of-two-keys,another-one-of-two": 401} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", scheme+"://"+at+"/v1/lookup", strings.NewReader(`{"uids":["alice"],"await_ms":5000}`))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+key)
			answer, err := client.Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			answer.Body.Close()
			require.Equal(t, want, answer.StatusCode, "%s", body)
			if want == 200 {
				require.Contains(t, string(body), `"state":"offline"`)
			}
		}
		client.CloseIdleConnections()
	}
}

// A delivery process that is ended while a call is under way lets nobody else in, answers, and ends well.
func TestAPIAnswersAtItsEnd(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	s.authority("a-1").Line("serving")
	d := process.StartWith(t, append(s.as(deploy.Delivery), "ROLLCALL_API_KEY=one-key-of-two-keys"), "delivery", "--node", "d-1", "--api-listen", "127.0.0.1:0")
	_, at, _ := strings.Cut(d.Line("API listens"), "at=")
	at, _, _ = strings.Cut(at, " ")
	conn, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	const call = `{"uids":["alice"],"await_ms":5000}`
	_, err = fmt.Fprintf(conn, "POST /v1/lookup HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer one-key-of-two-keys\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(call))
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "its key was read")
	_, err = answers.ReadString('\n')
	require.NoError(t, err)

	d.Signal(syscall.SIGTERM)
	process.Eventually(t, 10*time.Second, "nobody else is let in", func() bool {
		other, err := net.Dial("tcp", at)
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	_, err = io.WriteString(conn, call)
	require.NoError(t, err)
	answer, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", body)
	require.Contains(t, string(body), `"state":"offline"`)
	require.Zero(t, d.Wait())
}

// certificate writes what httptest serves with.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	pair := server.TLS.Certificates[0]
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return cert, key
}
