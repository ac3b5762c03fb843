package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// getStatus gets the status of the daemon at a socket.
func getStatus(t *testing.T, path string) *report.Status {
	t.Helper()
	code, stdout, stderr := runCommand(t, "status", "--json", "--control", path)
	require.Equal(t, cli.ExitOK, code, stderr)
	d := new(report.Status)
	require.NoError(t, json.Unmarshal([]byte(stdout), d))
	return d
}

// TestStatus checks that status shows transports, clients, exports, connections
// and calls.
func TestStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--clients", "127.0.0.0/8", "--ro", "--control", path, t.TempDir()+"=/x y")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	line, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), s.transportAddr(t, "rdma"), rpcrdma.ClientConfig{})
	require.NoError(t, err)
	defer line.Close()
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcNull}
	require.NoError(t, line.Call(t.Context(), &x))
	x.Release()
	tcp, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer tcp.Close()
	args := (&nfs3.HandleArgs{Object: nfs3.FH("nothing")}).AppendTo(nil)
	parseAccepted(t, tcpCall(t, tcp, encodeCall(8, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, args)), 8, 0)

	d := getStatus(t, path)
	assert.Equal(t, 1, d.Version)
	assert.Equal(t, "serving", d.Daemon.State)
	assert.Equal(t, os.Getpid(), d.Daemon.PID)
	assert.Less(t, time.Since(d.Daemon.Since), time.Hour)
	require.Len(t, d.Transports, 2)
	for i, name := range []string{"rdma", "tcp"} {
		assert.Equal(t, name, d.Transports[i].Name)
		assert.Equal(t, s.transportAddr(t, name), d.Transports[i].Address)
		assert.Equal(t, report.ConnectionCounts{Now: 1, Total: 1}, d.Transports[i].Connections)
	}
	require.Len(t, d.Connections, 2)
	overRDMA, overTCP := d.Connections[0], d.Connections[1]
	assert.Equal(t, tcp.LocalAddr().String(), overTCP.Peer)
	assert.EqualValues(t, 1, overTCP.Calls)
	for _, traffic := range []report.Traffic{overTCP.Traffic, d.Procedures[0].Traffic} {
		assert.Positive(t, traffic.BytesIn)
		assert.Equal(t, report.Traffic{BytesIn: traffic.BytesIn, BytesOut: traffic.BytesOut, OctetsIn: traffic.BytesIn, OctetsOut: traffic.BytesOut}, traffic)
	}
	require.NotNil(t, overRDMA.RDMA)
	assert.Positive(t, overRDMA.Calls)
	assert.Positive(t, overRDMA.RDMA.CreditsGranted)
	assert.Equal(t, 4096, overRDMA.RDMA.InlineReceive)
	assert.Positive(t, overRDMA.RDMA.FPDUsReceived)
	require.Len(t, d.Exports, 1)
	assert.Equal(t, "/x y", d.Exports[0].Path)
	assert.Len(t, d.Exports[0].Clients, 1)
	assert.Contains(t, d.Exports[0].Clients[0], "127.0.0.0/8(ro,")
	require.Len(t, d.Procedures, 2)
	assert.Equal(t, "NULL", d.Procedures[0].Procedure)
	assert.Equal(t, []report.ErrorCount{{Name: "NFS3ERR_BADHANDLE", Calls: 1}}, d.Procedures[1].Errors)

	code, text, stderr := runCommand(t, "status", "--control", path)
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, want := range []string{
		"serving since", "\nEXPORTS\n", `"/x y"  127.0.0.0/8(ro,`, "\nCONNECTIONS\n", tcp.LocalAddr().String(), "4096/",
		"\nPROCEDURES\n", "nfs3 GETATTR", "NFS3ERR_BADHANDLE 1",
	} {
		assert.Contains(t, text, want)
	}
	for line := range strings.Lines(text) {
		assert.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
	}
}

// TestStatusWithoutDaemon checks that the error contains a remedy if there is
// no daemon.
func TestStatusWithoutDaemon(t *testing.T) {
	nosuch := filepath.Join(t.TempDir(), "nosuch")
	stale := filepath.Join(t.TempDir(), "stale")
	leaveStaleSocket(t, stale)
	for _, path := range []string{nosuch, stale} {
		code, stdout, stderr := runCommand(t, "status", "--control", path)
		assert.Equal(t, cli.ExitError, code)
		assert.Empty(t, stdout)
		assert.Equal(t, "nfsrdmad: no nfsrdmad responds at "+path+": start one with nfsrdmad serve, or name its socket with --control PATH\n", stderr)
	}
}

// TestStatusOfHungDaemon checks the error if a daemon accepts and is silent.
func TestStatusOfHungDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = requestDaemon(ctx, path, http.MethodGet, "status")
	assert.ErrorContains(t, err, "the daemon at "+path+" does not respond")
}

// leaveStaleSocket makes a socket without a listener.
func leaveStaleSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

// TestControlTaken checks that a stale socket is replaced. The socket of a live
// daemon, and a file that is not a socket, remain, and the error contains a
// remedy.
func TestControlTaken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control")
	leaveStaleSocket(t, path)
	log := slog.New(slog.DiscardHandler)
	p := new(runningDaemon)
	c, err := openControl(path, p, log)
	require.NoError(t, err)
	_, err = openControl(path, p, log)
	assert.EqualError(t, err, "cannot create the control socket "+path+": another nfsrdmad uses it; name another with --control, or turn it off with --control \"\"")
	c.close()
	_, err = os.Lstat(path)
	assert.ErrorIs(t, err, os.ErrNotExist, "no file is left")

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	_, err = openControl(file, p, log)
	assert.ErrorContains(t, err, "not a socket")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))
	_, err = openControl(filepath.Join(dir, "no", "such"), p, log)
	assert.ErrorContains(t, err, "no such file or directory; name another with --control")

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		assert.Contains(t, []string{"file", "control.lock", "file.lock"}, e.Name())
	}
}

// TestControlDefault checks that the daemon starts even if the default socket
// fails.
func TestControlDefault(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	path := filepath.Join(t.TempDir(), "no", "such")
	c, err := new(runningDaemon).openControl(&operatorOptions{control: path}, log)
	assert.NoError(t, err)
	assert.Nil(t, c)
	c.close()
	assert.Contains(t, text.String(), "level=WARN")
	_, err = new(runningDaemon).openControl(&operatorOptions{control: path, controlGiven: true}, log)
	assert.Error(t, err)
}
