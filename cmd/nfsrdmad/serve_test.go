package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// testDaemon is a daemon in this process.
type testDaemon struct {
	ready  string
	stop   context.CancelFunc
	status chan int
	stderr bytes.Buffer // read only after the end
}

// startDaemon starts the daemon and waits for its ready line. Goroutines or
// descriptors that it leaves behind fail the test.
func startDaemon(t *testing.T, args ...string) *testDaemon {
	t.Helper()
	world := countResources(t)
	ctx, stop := context.WithCancel(context.Background())
	s := &testDaemon{stop: stop, status: make(chan int, 1)}
	r, w := io.Pipe()
	args = append([]string{"serve", "--state", t.TempDir(), "--control", ""}, args...)
	go func() {
		s.status <- run(ctx, args, w, &s.stderr)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: status %d, %s", <-s.status, &s.stderr)
	}
	s.ready = line
	t.Cleanup(func() {
		s.stop()
		assert.Equal(t, cli.ExitOK, <-s.status, "status after the drain")
		world.assertReleased(t)
	})
	return s
}

// transportAddr returns an address of the ready line.
func (s *testDaemon) transportAddr(t *testing.T, transport string) string {
	t.Helper()
	m := regexp.MustCompile(` ` + transport + `=(\S+)`).FindStringSubmatch(s.ready)
	require.NotNil(t, m, s.ready)
	return m[1]
}

// resourceCounts counts the resources that a daemon must release.
type resourceCounts struct{ goroutines, files int }

func countResources(t *testing.T) resourceCounts {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return resourceCounts{runtime.NumGoroutine(), len(fds)}
}

func (w resourceCounts) assertReleased(t *testing.T) {
	t.Helper()
	assert.Zero(t, buf.Default.Out(), "buffers")
	now := countResources(t)
	for end := time.Now().Add(5 * time.Second); !now.atMost(w) && time.Now().Before(end); now = countResources(t) {
		time.Sleep(time.Millisecond) // ending goroutines take a moment
	}
	assert.True(t, now.atMost(w), "%+v, before: %+v", now, w)
}

func (w resourceCounts) atMost(before resourceCounts) bool {
	return w.goroutines <= before.goroutines && w.files <= before.files
}

// encodeCall returns an RPC call with AUTH_NONE.
func encodeCall(xid, prog, vers, proc uint32, args []byte) []byte {
	var b []byte
	for _, v := range []uint32{xid, 0, 2, prog, vers, proc, 0, 0, 0, 0} {
		b = xdr.AppendUint32(b, v)
	}
	return append(b, args...)
}

// parseAccepted checks the head of a reply and returns the rest after accept_stat.
func parseAccepted(t *testing.T, reply []byte, xid, stat uint32) xdr.Reader {
	t.Helper()
	r := xdr.NewReader(reply)
	for _, want := range []uint32{xid, 1, 0, 0, 0, stat} {
		require.Equal(t, want, r.Uint32(), "% x", reply)
	}
	require.NoError(t, r.Err())
	return r
}

// tcpCall makes a call in one fragment, and reads a reply of one fragment.
func tcpCall(t *testing.T, c net.Conn, msg []byte) []byte {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...))
	require.NoError(t, err)
	var mark [4]byte
	_, err = io.ReadFull(c, mark[:])
	require.NoError(t, err)
	n := binary.BigEndian.Uint32(mark[:])
	require.NotZero(t, n>>31)
	reply := make([]byte, n&^(1<<31))
	_, err = io.ReadFull(c, reply)
	require.NoError(t, err)
	return reply
}

// TestServeVersion3 checks the range of versions with --vers 3: Linux asks for
// version 4 first, and uses that range.
func TestServeVersion3(t *testing.T) {
	s := startDaemon(t, "--vers", "3", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	r := parseAccepted(t, tcpCall(t, c, encodeCall(1, nfs3.Program, 4, 0, nil)), 1, 2)
	assert.Equal(t, []uint32{3, 3}, []uint32{r.Uint32(), r.Uint32()}, "versions")
}

// TestServeTCP checks R8267-4.2-1: both ports may be any.
func TestServeTCP(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hello"), []byte("hello, world\n"), 0o644))
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", dir+"=/x")
	assert.Regexp(t, `^ready rdma=127\.0\.0\.1:[1-9]\d* tcp=127\.0\.0\.1:[1-9]\d* exports=/x\n$`, s.ready)
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()

	parseAccepted(t, tcpCall(t, c, encodeCall(1, nfs3.Program, 3, 0, nil)), 1, 0)
	r := parseAccepted(t, tcpCall(t, c, encodeCall(2, nfs3.Program, 2, 0, nil)), 2, 2)
	assert.Equal(t, []uint32{3, 4}, []uint32{r.Uint32(), r.Uint32()}, "versions")
	parseAccepted(t, tcpCall(t, c, encodeCall(6, nfs3.Program, 4, 0, nil)), 6, 0)

	path := mount3.PathArgs{Path: []byte("/x")} // R8267-5.1-1: MOUNT answers by TCP
	r = parseAccepted(t, tcpCall(t, c, encodeCall(3, mount3.Program, 3, mount3.ProcMnt, path.AppendTo(nil))), 3, 0)
	var mnt mount3.MntRes
	mnt.Decode(&r)
	require.NoError(t, r.Done())
	require.Equal(t, mount3.OK, mnt.Status)

	lookup := xdr.AppendString(xdr.AppendOpaque(nil, mnt.Handle), "hello")
	r = parseAccepted(t, tcpCall(t, c, encodeCall(4, nfs3.Program, 3, nfs3.ProcLookup, lookup)), 4, 0)
	require.Zero(t, r.Uint32(), "status")
	read := xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, r.Opaque(64)), 7), 100)
	r = parseAccepted(t, tcpCall(t, c, encodeCall(5, nfs3.Program, 3, nfs3.ProcRead, read)), 5, 0)
	require.Zero(t, r.Uint32(), "status")
	require.True(t, r.Bool(), "attributes")
	r.Fixed(84)
	assert.Equal(t, uint32(6), r.Uint32(), "count")
	assert.True(t, r.Bool(), "end of file")
	assert.Equal(t, "world\n", string(r.Opaque(100)))
	assert.NoError(t, r.Done())
}

// replyHandler is the receiving side of an RDMA connection.
type replyHandler struct{ got chan []byte }

func (r replyHandler) Receive(m rdma.Recv) {
	r.got <- bytes.Clone(m.Buf.B)
	m.Buf.Release()
}
func (r replyHandler) Closed(error) { close(r.got) }

func TestServeRDMA(t *testing.T) {
	for _, tt := range []struct {
		name, addr   string
		crc, markers string
		mine         mpa.CRC
	}{
		{"IPv4, no CRC", "127.0.0.1:0", "off", "off", mpa.CRCOff},
		{"IPv6, CRC as asked", "[::1]:0", "auto", "off", mpa.CRCOn},
		{"CRC demanded", "127.0.0.1:0", "on", "off", mpa.CRCOff},
		{"Markers demanded", "127.0.0.1:0", "off", "on", mpa.CRCOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startDaemon(t, "--listen", tt.addr, "--tcp", "", "--crc="+tt.crc, "--markers="+tt.markers, "--no-extensions", "--credits=7", t.TempDir())
			assert.NotContains(t, s.ready, "tcp=")
			in := replyHandler{make(chan []byte, 1)}
			c, err := iwarp.Open(iwarp.Config{CRC: tt.mine}).Dial(t.Context(), s.transportAddr(t, "rdma"), rdma.ConnConfig{Handler: in, Recvs: 2})
			require.NoError(t, err)
			defer c.Close()
			assert.Equal(t, tt.markers == "on", c.(*iwarp.Conn).Params().SendMarkers)

			got := nullCall(t, c, in)
			assert.Equal(t, []byte{0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 7}, got[:12], "XID, version, credits")
			parseAccepted(t, got[28:], 9, 0)
		})
	}
}

// nullCall calls NFS's NULL over RDMA, and returns the reply.
func nullCall(t *testing.T, c rdma.Conn, in replyHandler) []byte {
	t.Helper()
	var msg []byte
	for _, v := range []uint32{9, 1, 32, 0, 0, 0, 0} { // RDMA_MSG without chunks
		msg = xdr.AppendUint32(msg, v)
	}
	require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{append(msg, encodeCall(9, nfs3.Program, 3, 0, nil)...)}}))
	select {
	case got := <-in.got:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("no reply")
		return nil
	}
}

func TestServeDefaultName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("a,b", 0o755))
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "./a,b", dir+"=/")
	assert.True(t, strings.HasSuffix(s.ready, " exports="+dir+`/a\054b,/`+"\n"), s.ready)
}

func TestServeReadOnlyForClients(t *testing.T) {
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--clients", "192.0.2.0/24", t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	path := mount3.PathArgs{Path: []byte("/x")}
	reply := tcpCall(t, c, encodeCall(1, mount3.Program, 3, mount3.ProcMnt, path.AppendTo(nil)))
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthBadCred), reply, "this host is not in the network")
}

func TestServeWarns(t *testing.T) {
	const warning = "any host that can connect to these addresses may mount; restrict access with --clients"
	for _, tt := range []struct {
		name string
		args []string
		warn bool
	}{
		{"loopback", []string{"--listen", "127.0.0.1:0", "--tcp", "[::1]:0"}, false},
		{"RDMA open", []string{"--listen", ":0", "--tcp", "127.0.0.1:0"}, true},
		{"TCP open", []string{"--listen", "127.0.0.1:0", "--tcp", "0.0.0.0:0"}, true},
		{"clients", []string{"--listen", ":0", "--tcp", ":0", "--clients", "127.0.0.0/8"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startDaemon(t, append(tt.args, t.TempDir())...)
			s.stop()
			status := <-s.status
			s.status <- status
			assert.Equal(t, tt.warn, strings.Contains(s.stderr.String(), warning), s.stderr.String())
		})
	}
}

// TestDefaultPort checks R8166-5-2, R8267-6.3-1, R8267-9-1 and R8881-2.9.3-1: the default
// ports are 20049 over RDMA and 2049 over TCP.
func TestDefaultPort(t *testing.T) {
	assert.Equal(t, ":20049", newServeCommand().Flag("listen").DefValue)
	assert.Equal(t, ":2049", newServeCommand().Flag("tcp").DefValue)
}

// TestExclusive checks that --exclusive applies to every DIR and all its
// clients. A file system in memory is always exclusive.
func TestExclusive(t *testing.T) {
	for _, tt := range []struct {
		flag  bool
		words []string
		dir   string
		yes   bool
	}{
		{false, nil, "/srv", false},
		{true, []string{"192.0.2.1", "2001:db8::/32"}, "/srv", true},
		{false, nil, "mem:=/scratch", true},
	} {
		o := serveOptions{exclusive: tt.flag, clientWords: tt.words}
		require.NoError(t, o.parseExportArgs([]string{tt.dir}))
		require.NotEmpty(t, o.exports[0].clients)
		for _, c := range o.exports[0].clients {
			assert.Equal(t, tt.yes, c.Options.Exclusive, tt.dir)
		}
	}
}
