package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// encodeNLMCall returns a call of NLM as root.
func encodeNLMCall(proc uint32, appendArgs func([]byte, uint32) []byte) []byte {
	call := encodeCall(1, nlm4.Program, nlm4.Version, proc, nil)[:6*4]
	for _, v := range []uint32{rpcmsg.AuthSys, 5 * 4, 0, 0, 0, 0, 0, rpcmsg.AuthNone, 0} { // stamp, machine, UID, GID, GIDs
		call = xdr.AppendUint32(call, v)
	}
	return appendArgs(call, nlm4.Version)
}

// udpCall makes a call over UDP, and repeats it until there is a reply.
func udpCall(t *testing.T, c net.Conn, msg []byte) []byte {
	t.Helper()
	reply := make([]byte, 1024)
	for {
		_, err := c.Write(msg)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		if n, err := c.Read(reply); err == nil {
			return reply[:n]
		}
		require.NoError(t, t.Context().Err())
	}
}

// TestNLMCalls locks files of two exports over UDP and TCP: nfsrdmad trace shows the calls with their
// files, and each counts for its export.
func TestNLMCalls(t *testing.T) {
	a, b, control := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "control")
	for _, dir := range []string{a, b} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	}
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--portmap", "127.0.0.1:0", "--control", control, "--no-root-squash", a+"=/a", b+"=/b")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	packets, err := net.Dial("udp", s.transportAddr(t, "udp"))
	require.NoError(t, err)
	defer packets.Close()
	rootA, rootB := mountOverTCP(t, c, "/a"), mountOverTCP(t, c, "/b")
	fileA, fileB := lookUpFile(t, c, rootA, "f"), lookUpFile(t, c, rootB, "f")
	test := func(file nfs3.FH, send func([]byte) []byte) {
		t.Helper()
		args := nlm4.TestArgs{Exclusive: true, Lock: nlm4.Lock{Caller: []byte("v3host"), Handle: file, Owner: []byte("42@v3host"), SVID: 42, Length: 15}}
		r := parseAccepted(t, send(encodeNLMCall(nlm4.ProcTest, args.AppendTo)), 1, 0)
		var res nlm4.TestRes
		res.Decode(&r, nlm4.Version)
		require.Equal(t, nlm4.Granted, res.Status)
	}
	overUDP := func(msg []byte) []byte { return udpCall(t, packets, msg) }
	before := getStatus(t, control).Exports

	trace := startTrace(t, control, "--json", "--export", "/a")
	calls := uint64(0)
	got := parseTraced(t, trace.callUntilTraced(t, func() {
		test(fileA, overUDP)
		calls++
	}))
	path, err := filepath.EvalSymlinks(filepath.Join(a, "f"))
	require.NoError(t, err)
	assert.Equal(t, report.TracedCall{
		Time: got.Time, Client: "127.0.0.1", Transport: "udp", Program: "nlm4", Procedure: "TEST", Export: "/a", Path: path, FileID: got.FileID,
		BytesIn: got.BytesIn, BytesOut: got.BytesOut, Status: "OK", Seconds: got.Seconds,
	}, got)
	assert.Positive(t, got.BytesOut)

	for range 3 {
		test(fileB, func(msg []byte) []byte { return tcpCall(t, c, msg) })
	}
	after := getStatus(t, control).Exports
	assert.GreaterOrEqual(t, after[0].Activity.Calls-before[0].Activity.Calls, calls, "a datagram may be repeated")
	assert.EqualValues(t, 3, after[1].Activity.Calls-before[1].Activity.Calls)
}
