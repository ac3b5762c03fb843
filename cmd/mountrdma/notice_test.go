package main

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// randomLoopback returns a random loopback address that is probably unused: its port
// 4791 is free, and a released port stays free.
func randomLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.N(250)), byte(rand.N(256)), byte(1 + rand.N(250))})
}

// A fakeDiscoverServer serves package discover's protocol.
type fakeDiscoverServer struct {
	dev     *roce.Device
	cfg     discover.Config
	clients []byte
	*discover.Server
}

// newDiscoverServer serves at an address until the test ends.
func newDiscoverServer(t *testing.T, addr netip.Addr, exports ...string) *fakeDiscoverServer {
	wire, err := roce.ListenUDP(addr)
	require.NoError(t, err)
	h := &fakeDiscoverServer{dev: roce.Open(wire, roce.Config{})}
	h.cfg = discover.Config{
		Describe: func() discover.Description {
			return discover.Description{RDMA: netip.AddrPortFrom(addr, 20049), Host: "h", Version: "v", Exports: exports}
		},
		Count: func(c *discover.Counters) {
			*c = discover.Counters{
				Sequence: c.Sequence, Uptime: time.Duration(c.Sequence+1) * time.Second,
				Transports: []discover.Transport{{Name: "rdma", Connections: 3}},
				Procs:      []discover.Proc{{Program: "nfs3", Name: "READ", Calls: 10 * (uint64(c.Sequence) + 1)}},
			}
		},
		Monitors: func(a netip.Addr) bool { return a != netip.AddrFrom4([4]byte{127, 0, 0, 66}) },
		Save:     func(b []byte) error { h.clients = b; return nil },
		Log:      slog.New(slog.DiscardHandler),
	}
	h.startServing(t)
	t.Cleanup(func() {
		h.Close()
		assert.NoError(t, h.dev.Close())
	})
	return h
}

func (h *fakeDiscoverServer) startServing(t *testing.T) {
	var err error
	h.Server, err = discover.Serve(h.dev, h.cfg)
	require.NoError(t, err)
}

// restartServer acts like a server restart.
func (h *fakeDiscoverServer) restartServer(t *testing.T) {
	h.Close()
	h.cfg.Clients = h.clients
	h.startServing(t)
}

// A cuttableRelay relays connections to a server, and can cut them like a power failure: old
// connections then receive nothing, and new connections work.
type cuttableRelay struct {
	mu      sync.Mutex
	cutDone chan struct{}
}

func (f *cuttableRelay) cutConns() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cutDone)
	f.cutDone = make(chan struct{})
}

// relayConn relays a connection to a server and back.
func (f *cuttableRelay) relayConn(c net.Conn, server string) {
	f.mu.Lock()
	dead := f.cutDone
	f.mu.Unlock()
	s, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer s.Close()
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			select {
			case <-dead:
				_, _ = io.Copy(io.Discard, from) // until the peer closes the connection
				return
			default:
			}
			if _, wrote := to.Write(b[:n]); err != nil || wrote != nil {
				return
			}
		}
	}
	both.Go(func() {
		carry(s, c)
		s.Close()
	})
	both.Go(func() {
		carry(c, s)
		c.Close()
	})
	both.Wait()
}

// TestNoticeOfRestart checks that a mount reconnects after a notice. The server
// disappears silently and comes back; without the notice the mount would wait
// for a minute (timeo).
func TestNoticeOfRestart(t *testing.T) {
	r, point := newMountTest(t)
	at := randomLoopback()
	way := &cuttableRelay{cutDone: make(chan struct{})}
	addr, stop := listenTCPAt(t, at.String()+":0", func(c net.Conn) { way.relayConn(c, r.addr) })
	h := newDiscoverServer(t, at, "/x")
	cmd := startForeground(t, addr+":/x", point, "-v", "-o", "notice="+randomLoopback().String())
	for h.Stats().Clients == 0 { // wait for the mount's registration
		require.NoError(t, t.Context().Err())
		time.Sleep(time.Millisecond)
	}
	assert.Equal(t, "content", readFile(t, point, "d", "f"))
	way.cutConns()
	asked := make(chan error, 1)
	go func() {
		_, err := os.Lstat(filepath.Join(point, "d", "new"))
		asked <- err
	}()
	began := time.Now()
	h.restartServer(t)
	select {
	case err := <-asked:
		assert.ErrorIs(t, err, unix.ENOENT)
	case <-time.After(20 * time.Second): // enough on a busy machine
		t.Error("the mount has not noticed the restart")
		return
	}
	t.Logf("the mount answers again %v after the restart", time.Since(began))
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.NoError(t, cmd.Wait())
	stop()
	assert.Zero(t, h.Stats().Clients, "it has unregistered")
}

// TestNoticePortTaken checks that a mount works without notices if another
// program has the port.
func TestNoticePortTaken(t *testing.T) {
	r, point := newMountTest(t)
	taken := randomLoopback()
	wire, err := roce.ListenUDP(taken)
	require.NoError(t, err)
	defer wire.Close()
	cmd := startForeground(t, r.addr+":/x", point, "-o", "notice="+taken.String())
	assert.Equal(t, "content", readFile(t, point, "d", "f"))
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// TestDiscover checks that discover lists a server by its address or by a
// multicast query, and reports a missing reply.
func TestDiscover(t *testing.T) {
	checkLeaks(t)
	server, local := randomLoopback(), randomLoopback()
	h := newDiscoverServer(t, server, "/a b", "/c")
	want := `[{"address":"` + server.String() + `","host":"h","version":"v","boot":"`
	for _, args := range [][]string{{server.String()}, {}} {
		args = append([]string{"discover", "--local", local.String()}, args...)
		out := mustRun(t, args...)
		lines := strings.Split(out, "\n")
		assert.Regexp(t, `^SERVER +HOST +SINCE +BOOT +TCP +EXPORTS$`, lines[0])
		assert.Regexp(t, `(?m)^`+server.String()+`:20049 +h +\S+ \S+ +[0-9a-f]{16} +- +/a%20b /c$`, out)
		out = mustRun(t, append(args, "--json")...)
		assert.Contains(t, out, want[1:])
		assert.Contains(t, out, `"exports":["/a b","/c"],"exports_total":2}`)
	}
	h.Close() // the address remains, without a server
	said := mustFail(t, "discover", "--local", local.String(), "--timeout", "100ms", server.String())
	assert.Equal(t, "mountrdma: "+server.String()+" did not respond within 100ms: it needs nfsrdmad serve --discover "+server.String()+
		", and firewalls must let UDP port 4791 through\n", said)
	said = mustFail(t, "discover", "--local", server.String(), server.String())
	assert.Contains(t, said, "UDP port 4791 of "+server.String()+" is in use")
	assert.Contains(t, mustFail(t, "discover", "--local", "x"), `--local "x" is no address`)
	h.startServing(t)
}

// TestTop checks that top shows the counters that a server writes into this
// program's memory.
func TestTop(t *testing.T) {
	checkLeaks(t)
	server, local := randomLoopback(), randomLoopback()
	h := newDiscoverServer(t, server)
	args := []string{"top", "--local", local.String(), server.String(), "--interval", "100ms", "-n", "3"}
	out := mustRun(t, args...)
	assert.Equal(t, 3, strings.Count(out, "VIA"), out)
	assert.Regexp(t, `(?m)^rdma +3 +0 +0 +0$`, out)
	assert.Regexp(t, `(?m)^nfs3 READ +10\.0 `, out)
	assert.Regexp(t, `(?m)^all +10\.0 `, out)
	out = mustRun(t, append(args, "--json")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^{"server":"`+server.String()+`","boot":"[0-9a-f]{16}","sequence":\d+,"lost":\d+,"draining":false,"uptime_seconds":\d+,`+
		`"transports":\[{"name":"rdma","connections":3,.*"procedures":\[{"program":"nfs3","procedure":"READ","calls":\d+,`, lines[2])
	for h.Stats().Monitors > 0 { // wait until the monitor has unregistered
		require.NoError(t, t.Context().Err())
		time.Sleep(time.Millisecond)
	}
	args[2] = "127.0.0.66"
	assert.Equal(t, "mountrdma: "+server.String()+" says: the server does not show its counters to this address; name the address in nfsrdmad serve --monitors\n", mustFail(t, args...))
	status, _, said := runCommand(t, "top", server.String(), "--interval", "1ms")
	assert.Equal(t, 2, status)
	assert.Equal(t, "mountrdma: --interval 1ms is not between 100ms and 1m0s\n", said)
}

// TestTopLost checks that lost updates are counted, and duplicates are not
// shown.
func TestTopLost(t *testing.T) {
	var b strings.Builder
	v := topView{app: newApp(&b, io.Discard), o: &topOptions{}, server: randomLoopback()}
	update := func(boot uint64, sequence uint32) {
		assert.True(t, v.showUpdate(&discover.Counters{Boot: boot, Sequence: sequence, Uptime: time.Duration(sequence) * time.Second}))
	}
	update(1, 1)
	update(1, 2)
	update(1, 2)
	assert.Equal(t, 2, v.shown)
	update(1, 6)
	assert.EqualValues(t, 3, v.lost)
	update(2, 1)
	assert.EqualValues(t, 3, v.lost, "counting restarts when the server restarts")
	assert.Equal(t, 4, v.shown)
	assert.Contains(t, b.String(), ", 3 updates lost")
}
