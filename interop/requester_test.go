//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// requesterLimit is the time for all calls to one server.
const requesterLimit = 3 * time.Minute

// A requestedServer is a server that the requester over NFSv4 uses.
type requestedServer struct {
	rdma, tcp string
	path      string // the export's path in the NFSv4 namespace
	restart   func() // nil: not restarted
}

// TestRequester uses the requester over NFSv4 with the kernel's server and with nfsrdmad,
// over RDMA and TCP: files, connections that are cut in the middle of calls, and a daemon
// that is killed.
func TestRequester(t *testing.T) {
	for name, find := range map[string]func(t *testing.T) requestedServer{
		"knfsd": func(t *testing.T) requestedServer {
			g := sharedGuest(t)
			return requestedServer{rdma: g.Addr(20049), tcp: g.Addr(2049), path: "/"} // fsid=0
		},
		"nfsrdmad": func(t *testing.T) requestedServer {
			d := startDaemon(t, "--no-root-squash")
			return requestedServer{rdma: d.rdma, tcp: d.tcp, path: "/x", restart: func() {
				d.proc.Kill()
				d.startProcess()
			}}
		},
	} {
		for _, minor := range []uint32{nfs4.Minor1, nfs4.Minor2} {
			t.Run(fmt.Sprint(name, " RDMA 4.", minor), func(t *testing.T) {
				r := find(t)
				relay := newRelay(t, r.rdma, hiddenSupport{})
				cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
				cfg := nfsrdma.ClientConfig{IWARP: iwarp.Config{StartupTimeout: time.Minute}, Log: slog.New(slog.DiscardHandler)}
				cfg.NFS.Cred = &cred
				s, err := nfsrdma.DialV4(t.Context(), relay.addr, minor, cfg)
				require.NoError(t, err)
				useSession(t, s, r, relay.resetAll)
			})
		}
		t.Run(name+" TCP", func(t *testing.T) {
			r := find(t)
			var line tcpLine
			s, err := nfs4client.Dial(t.Context(), nfs4client.Config{
				Dial:    func(ctx context.Context) (nfs4client.Conn, error) { return line.dialConn(ctx, r.tcp) },
				Network: "tcp", Minor: nfs4.Minor2, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Log: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			useSession(t, s, r, line.resetConn)
		})
	}
}

// A tcpLine makes connections over TCP that can be cut.
type tcpLine struct {
	mu   sync.Mutex
	last *net.TCPConn
}

func (l *tcpLine) dialConn(ctx context.Context, addr string) (nfs4client.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = c.(*net.TCPConn)
	return oncrpc.NewTCPClient(c, oncrpc.ClientConfig{}), nil
}

func (l *tcpLine) resetConn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.last.SetLinger(0)
	_ = l.last.Close()
}

// goodbyeLimit is the time to close a session.
const goodbyeLimit = 30 * time.Second

// useSession uses a session below a new directory of the export, and closes it at the
// end of the test, which otherwise could not end after a failure.
func useSession(t *testing.T, s *nfs4client.Session, r requestedServer, cut func()) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeLimit)
		defer cancel()
		assert.NoError(t, s.Close(ctx))
	})
	ctx, cancel := context.WithTimeout(t.Context(), requesterLimit)
	defer cancel()
	top, err := s.Walk(ctx, r.path)
	require.NoError(t, err)
	name := strings.ReplaceAll(t.Name(), "/", "-")
	dir, err := s.Mkdir(ctx, top, name, 0o755)
	require.NoError(t, err)
	f, err := s.Open(ctx, dir, "f", nfs4client.OpenFlags{Read: true, Write: true, Create: true, Exclusive: true, Mode: 0o644})
	require.NoError(t, err)
	data := make([]byte, 300<<10)
	for i := range data {
		data[i] = byte(i % 251)
	}
	check := func() {
		t.Helper()
		for at := 0; at < len(data); {
			res, err := f.WriteAt(ctx, data[at:], uint64(at), nfs4.Unstable)
			require.NoError(t, err)
			at += int(res.Count)
		}
		_, err := f.Commit(ctx)
		require.NoError(t, err)
		got := make([]byte, len(data)+1)
		for at, end := 0, false; !end; {
			n, err := f.ReadAt(ctx, got[at:], uint64(at))
			if end = err == io.EOF; !end {
				require.NoError(t, err)
			}
			at += n
			require.True(t, bytes.Equal(data[at-n:at], got[at-n:at]))
		}
	}
	check()
	exactlyOnce(ctx, t, s, dir, cut)
	require.NoError(t, f.Lock(ctx, nfs4client.Range{End: nfs4client.ToEnd}, true))
	check() // with the stateid of the locks
	if r.restart != nil {
		r.restart()
		check()
	}
	require.NoError(t, f.Close(ctx))
	require.NoError(t, s.Remove(ctx, dir, "f"))
	require.NoError(t, s.Remove(ctx, top, name))
}

// exactlyOnce makes and removes directories while connections are cut. A change
// that is made twice fails: the name exists, or is gone.
func exactlyOnce(ctx context.Context, t *testing.T, s *nfs4client.Session, dir nfs4.FH, cut func()) {
	const cuts = 12
	var made atomic.Int64
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprint(i, "-", n)
				_, err := s.Mkdir(ctx, dir, name, 0o755)
				if assert.NoError(t, err) {
					err = s.Remove(ctx, dir, name)
				}
				if !assert.NoError(t, err) {
					return
				}
				made.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range cuts {
		// Only a connection that works is cut: siw in the guest refuses
		// connections for minutes if some before ended during their start-up.
		for before := made.Load(); made.Load() < before+8 && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		cut()
	}
	close(done)
	all.Wait()
	names := 0
	for e, err := range s.ReadDir(ctx, dir, nfs4.Bitmap{}) {
		require.NoError(t, err)
		assert.Equal(t, "f", e.Name)
		names++
	}
	assert.Equal(t, 1, names)
}
