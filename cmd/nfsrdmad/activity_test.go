package main

import (
	"bytes"
	"context"
	"io"
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
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// mountOverTCP returns the root of an export, by MNT on a connection.
func mountOverTCP(t *testing.T, c net.Conn, path string) nfs3.FH {
	t.Helper()
	args := (&mount3.PathArgs{Path: []byte(path)}).AppendTo(nil)
	r := parseAccepted(t, tcpCall(t, c, encodeCall(1, mount3.Program, mount3.Version, mount3.ProcMnt, args)), 1, 0)
	require.Zero(t, r.Uint32())
	return append(nfs3.FH(nil), r.Opaque(64)...)
}

// callNFS3 makes a call and returns the status of its results, and the rest of these.
func callNFS3(t *testing.T, c net.Conn, proc uint32, args []byte) (nfs3.Status, xdr.Reader) {
	t.Helper()
	r := parseAccepted(t, tcpCall(t, c, encodeCall(2, nfs3.Program, nfs3.Version, proc, args)), 2, 0)
	return nfs3.Status(r.Uint32()), r
}

// lookUpFile returns a file's handle.
func lookUpFile(t *testing.T, c net.Conn, dir nfs3.FH, name string) nfs3.FH {
	t.Helper()
	status, r := callNFS3(t, c, nfs3.ProcLookup, (&nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}).AppendTo(nil))
	require.Equal(t, nfs3.OK, status)
	return append(nfs3.FH(nil), r.Opaque(64)...)
}

// appendPutFH appends PUTFH to the operations of a COMPOUND.
func appendPutFH(b []byte, fh nfs3.FH) []byte {
	return xdr.AppendOpaque(xdr.AppendUint32(b, uint32(nfs4.OpPutFH)), fh)
}

// TestActivity makes known calls by versions 3 and 4 for two exports, and checks what status, the
// metrics and the live page say of the exports and of the client.
func TestActivity(t *testing.T) {
	a, b, control := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "control")
	for _, dir := range []string{a, b} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1000), 0o666))
	}
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--control", control, a+"=/a", b+"=/b")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	rootA, rootB := mountOverTCP(t, c, "/a"), mountOverTCP(t, c, "/b")
	fileA, fileB := lookUpFile(t, c, rootA, "f"), lookUpFile(t, c, rootB, "f")
	for range 2 {
		status, _ := callNFS3(t, c, nfs3.ProcRead, (&nfs3.ReadArgs{File: fileA, Count: 4096}).AppendTo(nil))
		require.Equal(t, nfs3.OK, status)
	}
	status, _ := callNFS3(t, c, nfs3.ProcLookup, (&nfs3.DirOpArgs{Dir: rootA, Name: []byte("none")}).AppendTo(nil))
	require.Equal(t, nfs3.ErrNoEnt, status)

	// PUTFH a, GETATTR, PUTFH b, READ, READLINK, which fails.
	compound := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}
	compound = appendPutFH(compound, fileA)
	compound = xdr.AppendUint32(xdr.AppendUint32(compound, uint32(nfs4.OpGetAttr)), 0)
	compound = appendPutFH(compound, fileB)
	compound = nfs4.AppendOp(compound, nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 100})
	compound = xdr.AppendUint32(compound, uint32(nfs4.OpReadLink))
	r := parseAccepted(t, tcpCall(t, c, encodeCall(3, nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)), 3, 0)
	require.Equal(t, nfs4.ErrInval, nfs4.Status(r.Uint32()))

	d := getStatus(t, control)
	require.Len(t, d.Exports, 2)
	onA, onB := d.Exports[0].Activity, d.Exports[1].Activity
	type figures struct{ calls, operations, read, written uint64 }
	assert.Equal(t, figures{4, 2, 2000, 0}, figures{onA.Calls, onA.Operations, onA.BytesRead, onA.BytesWritten}, "two LOOKUPs and two READs; the operations before PUTFH of b")
	assert.Equal(t, []report.ErrorCount{{Name: "NOENT", Calls: 1}}, onA.Errors)
	assert.Equal(t, figures{2, 3, 100, 0}, figures{onB.Calls, onB.Operations, onB.BytesRead, onB.BytesWritten}, "LOOKUP, and the COMPOUND that ended there")
	assert.Equal(t, []report.ErrorCount{{Name: "INVAL", Calls: 1}}, onB.Errors)
	assert.Positive(t, onA.Seconds)
	require.Len(t, d.ClientActivity.List, 1)
	by := &d.ClientActivity.List[0]
	assert.Equal(t, "127.0.0.1", by.Address)
	assert.EqualValues(t, 8, by.Calls, "with two MNTs")
	assert.EqualValues(t, 2100, by.BytesRead)
	assert.Equal(t, []report.ErrorCount{{Name: "NOENT", Calls: 1}, {Name: "INVAL", Calls: 1}}, by.Errors)
	space := d.Exports[0].Space
	require.NotNil(t, space)
	assert.True(t, space.Responds)
	assert.Positive(t, space.Bytes)
	assert.LessOrEqual(t, space.AvailableBytes, space.Bytes)

	var text strings.Builder
	require.NoError(t, d.PrintText(&text, time.Now()))
	assert.Regexp(t, `(?s)ACTIVITY BY EXPORT\n.*/a +4 +0 +1.95 KiB +0 .* NOENT 1\n/b +2 .*ACTIVITY BY CLIENT\n.*127\.0\.0\.1 +8 +2.05 KiB`, text.String())

	resp, err := http.Get("http://" + s.transportAddr(t, "metrics") + "/metrics")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, want := range []string{
		`nfsrdma_export_duration_seconds_count{export="/a"} 4`, `nfsrdma_export_read_bytes_total{export="/a"} 2000`,
		`nfsrdma_export_errors_total{error="INVAL",export="/b"} 1`, `nfsrdma_export_nfs4_operations_total{export="/b"} 3`,
		`nfsrdma_export_responds{export="/a"} 1`, `nfsrdma_export_calls_in_flight{export="/a"} 0`,
	} {
		assert.True(t, strings.Contains(string(metrics), "\n"+want+"\n"), want)
	}
	assert.NotContains(t, string(metrics), "127.0.0.1", "a client is no label")
}

// TestActivityOutlivesReload checks that the counters of an export that remains are kept when its
// options change.
func TestActivityOutlivesReload(t *testing.T) {
	dir, conf := t.TempDir(), t.TempDir()
	file, control := filepath.Join(conf, "exports"), filepath.Join(conf, "control")
	require.NoError(t, os.WriteFile(file, []byte(dir+" *(ro,insecure)\n"), 0o644))
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", control, "--exports", file)
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	callGetAttr := func() {
		status, _ := callNFS3(t, c, nfs3.ProcGetAttr, (&nfs3.HandleArgs{Object: mountOverTCP(t, c, dir)}).AppendTo(nil))
		require.Equal(t, nfs3.OK, status)
	}
	callGetAttr()
	require.NoError(t, os.WriteFile(file, []byte(dir+" *(rw,insecure)\n"), 0o644))
	var out, stderr bytes.Buffer
	require.Zero(t, run(context.Background(), []string{"reload", "--control", control}, &out, &stderr), &stderr)
	callGetAttr()
	assert.EqualValues(t, 2, getStatus(t, control).Exports[0].Activity.Calls)
}
