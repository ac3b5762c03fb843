package main

import (
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestLivePage checks that a daemon's page has its calls, clients, connections and exports, and the
// beginning of its history, that a client cannot put anything but text into it, and that it only
// accepts GET.
func TestLivePage(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--control", control, "--vers", "3,4.2", t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	parseAccepted(t, tcpCall(t, c, encodeCall(8, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, (&nfs3.HandleArgs{Object: nfs3.FH("nothing")}).AppendTo(nil))), 8, 0)
	const hostile = `<script>alert(1)</script>&"'`
	callCompound(t, c, 1, nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(hostile)}, new(nfs4.ExchangeIDRes))

	resp, err := http.Get("http://" + s.transportAddr(t, "metrics") + "/")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	page := string(text)
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, 1, strings.Count(page, "<script"))
	assert.Regexp(t, "; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'$", resp.Header.Get("Content-Security-Policy"))

	d := getStatus(t, control)
	for _, path := range []string{"/?export=/x", "/history"} {
		resp, err := http.Get("http://" + s.transportAddr(t, "metrics") + path)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		assert.Contains(t, string(text), map[string]string{"/?export=/x": `id="own"`, "/history": `{"version":1,"interval_seconds":10,`}[path])
	}
	for _, want := range []string{"nfs3 GETATTR", "NFS3ERR_BADHANDLE 1", strconv.Quote(hostile), d.Connections[0].Peer, d.Exports[0].Path, "*(rw,insecure)", `<b id="rate-connections">1</b>`, `<b id="rate-clients">1</b>`} {
		assert.True(t, strings.Contains(html.UnescapeString(page), want), want)
	}

	resp, err = http.Post("http://"+s.transportAddr(t, "metrics")+"/", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// TestLivePageRebound checks that the server at a loopback address is not for names of others,
// which a browser may have been led to.
func TestLivePageRebound(t *testing.T) {
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--metrics", "127.0.0.1:0", t.TempDir()+"=/x")
	addr := s.transportAddr(t, "metrics")
	defer http.DefaultClient.CloseIdleConnections()
	own, err := os.Hostname()
	require.NoError(t, err)
	for host, want := range map[string]int{
		addr: http.StatusOK, "localhost:9849": http.StatusOK, "LOCALHOST": http.StatusOK, "[::1]:9849": http.StatusOK, own + ":9849": http.StatusOK,
		"evil.example:9849": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden, "notlocalhost": http.StatusForbidden,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
		require.NoError(t, err)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, want, resp.StatusCode, host)
		assert.Equal(t, want == http.StatusOK, strings.Contains(string(text), "/x"), host)
		for _, path := range []string{"/metrics", "/healthz"} {
			req.URL.Path = path
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			assert.Equal(t, want, resp.StatusCode, "%s of %s", path, host)
		}
	}
}
