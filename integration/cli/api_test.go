package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
