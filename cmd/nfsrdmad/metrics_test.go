package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// describedMetrics returns the labels by name of the metrics that the collector
// describes.
func describedMetrics(t *testing.T) map[string]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 100)
	report.NewCollector(new(runningDaemon).reportSource).Describe(descs)
	close(descs)
	all := make(map[string]string)
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		require.NotNil(t, m, d.String())
		assert.NotContains(t, all, m[1], "twice")
		all[m[1]] = m[2]
	}
	return all
}

// TestMetricsDocumented checks that the document lists exactly the exported
// metrics with their labels.
func TestMetricsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	documented := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(nfsrdma_[a-z0-9_]+)` \\| [a-z]+ \\| ([a-z, ]*) ?\\|").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = strings.ReplaceAll(strings.TrimSpace(m[2]), ", ", ",")
	}
	assert.Equal(t, documented, describedMetrics(t))
}

// httpGet sends a request to the handler of --metrics.
func httpGet(t *testing.T, h http.Handler, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// TestMetrics checks that a daemon with a failed call exports every metric
// except those of events that have not happened. A scrape of an idle daemon
// changes nothing.
func TestMetrics(t *testing.T) {
	keytab := filepath.Join(t.TempDir(), "keytab")
	writeKeytab(t, keytab, "EXAMPLE.ORG", "nfs", "a.example")
	tls := certtest.New(t, "root", time.Now()).Issue(nil)
	s := startDaemon(t, "--tls-cert", tls.Cert, "--tls-key", tls.Key, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--discover", randomLoopback().String(), "--vers", "3,4.2",
		"--keytab", keytab, "--sec", "sys:krb5", t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	args := (&nfs3.HandleArgs{Object: nfs3.FH("nothing")}).AppendTo(nil)
	parseAccepted(t, tcpCall(t, c, encodeCall(8, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, args)), 8, 0)
	compound := (&nfs4.CompoundArgs{Minor: nfs4.Minor2, N: 2}).AppendTo(nil)
	compound = nfs4.AppendOp(compound, nfs4.OpSequence, new(nfs4.SequenceArgs))
	compound = xdr.AppendUint32(compound, uint32(nfs4.OpReadLink))
	parseAccepted(t, tcpCall(t, c, encodeCall(9, nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)), 9, 0)
	parseAccepted(t, tcpCall(t, c, initCall(10, "no token")), 10, 0)
	resp, err := http.Get("http://" + s.transportAddr(t, "metrics") + "/metrics")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	body := string(text)
	for _, want := range []string{
		`nfsrdma_rpc_duration_seconds_count{procedure="GETATTR",program="nfs3"} 1`,
		`nfsrdma_rpc_duration_seconds_bucket{procedure="GETATTR",program="nfs3",le="+Inf"} 1`,
		`nfsrdma_rpc_errors_total{error="NFS3ERR_BADHANDLE",procedure="GETATTR",program="nfs3"} 1`,
		`nfsrdma_rpc_errors_total{error="NFS4ERR_BADSESSION",procedure="READLINK",program="nfs4"} 1`,
		`nfsrdma_nfs4_operations_total{operation="SEQUENCE"} 1`,
		`nfsrdma_nfs4_operation_errors_total{error="NFS4ERR_BADSESSION",operation="SEQUENCE"} 1`,
		`nfsrdma_connections{transport="tcp"} 1`, `nfsrdma_connections{transport="rdma"} 0`,
		`nfsrdma_memory_limit_bytes{transport="rdma",use="chunks"} 2.68435456e+08`,
		`nfsrdma_rdma_refused_calls_total{code="ERR_CHUNK"} 0`, `nfsrdma_draining 0`, `nfsrdma_exports 1`,
		`nfsrdma_security_refused_total{reason="other"} 1`, `nfsrdma_security_calls_total{flavor="krb5p"} 0`,
		"go_goroutines", "process_open_fds",
	} {
		assert.True(t, strings.Contains(body, want), want)
	}
	for name := range describedMetrics(t) {
		if !slices.Contains([]string{"nfsrdma_terminates_sent_total", "nfsrdma_terminates_received_total", "nfsrdma_trace_spans_total", "nfsrdma_export_errors_total", "nfsrdma_standby_waiting", "nfsrdma_tenure_seconds"}, name) {
			assert.True(t, strings.Contains(body, "\n"+name), "a value of %s", name)
		}
	}
}

func TestHealthz(t *testing.T) {
	p := new(runningDaemon)
	h := p.metricsHandler()
	status, body := httpGet(t, h, "/healthz")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "serving\n", body)
	p.draining.Store(true)
	status, body = httpGet(t, h, "/healthz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "draining\n", body)
	status, _ = httpGet(t, h, "/nothing")
	assert.Equal(t, http.StatusNotFound, status)
}

// TestStatusWhileDraining checks that status reports draining while a call
// keeps the daemon from ending.
func TestStatusWhileDraining(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	p := startProc(t, "--control", path, "--metrics", "127.0.0.1:0")
	assert.Equal(t, "serving", getStatus(t, path).Daemon.State)
	w := newSlowWrite(t, p)
	p.sendTerm()
	require.Eventually(t, func() bool { return getStatus(t, path).Daemon.State == "draining" }, time.Minute, time.Millisecond)
	resp, err := http.Get("http://" + p.transportAddr(t, "metrics") + "/healthz")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	close(w.release)
	assert.NoError(t, <-w.result)
	assert.Equal(t, cli.ExitOK, p.waitExit().ExitStatus())
	_, err = os.Lstat(path)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
