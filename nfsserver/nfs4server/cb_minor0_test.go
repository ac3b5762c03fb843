package nfs4server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// callbackAddr returns the port of a listener on 127.0.0.1 in SETCLIENTID's form.
func callbackAddr(l net.Listener) string {
	port := l.Addr().(*net.TCPAddr).Port
	return fmt.Sprintf("127.0.0.1.%d.%d", port>>8, port&0xff)
}

// acceptCall accepts a connection, and reads the call that comes by it.
func acceptCall(t *testing.T, l net.Listener) (nc net.Conn, call xdr.Reader) {
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(20*time.Second)))
	nc, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	b := make([]byte, 4+40)
	require.NoError(t, nc.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = nc.Read(b)
	require.NoError(t, err)
	return nc, xdr.NewReader(b[4:])
}

// TestProbesAreBounded: a client whose callback does not reply has one probe in flight, however
// often the client confirms its ID (R7530-10.2-1).
func TestProbesAreBounded(t *testing.T) {
	g, _ := newDelegServer(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	var id uint64
	for range 100 {
		id = g.newMinor0Client("plain", "tcp", callbackAddr(silent))
	}
	acceptCall(t, silent)
	r := &g.s.callbacks
	r.mu.Lock()
	q := r.byClient[id]
	assert.LessOrEqual(t, len(q.pending)+q.workers, 1)
	assert.Len(t, r.probes, 1)
	r.mu.Unlock()
}

// TestProbeOfANewCallback: a client that changes its callback while the old one is
// about to answer has the new one probed.
func TestProbeOfANewCallback(t *testing.T) {
	g, _ := newDelegServer(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	old, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer old.Close()
	changed, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer changed.Close()
	g.newMinor0Client("plain", "tcp", callbackAddr(old))
	nc, call := acceptCall(t, old)
	g.newMinor0Client("plain", "tcp", callbackAddr(changed))
	var reply []byte
	for _, word := range []uint32{1<<31 | 24, call.Uint32(), 1, 0, 0, 0, 0} {
		reply = xdr.AppendUint32(reply, word)
	}
	_, err = nc.Write(reply)
	require.NoError(t, err)
	acceptCall(t, changed)
}

// TestNoCallbackInClear checks that an NFSv4.0 client that uses TLS is not called back, because
// the callback would be unencrypted: it gets no delegations.
func TestNoCallbackInClear(t *testing.T) {
	for _, security := range []*oncrpc.Security{nil, {}, {Mutual: true}} {
		t.Run(security.String(), func(t *testing.T) {
			g, _ := newDelegServer(t)
			g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp", Security: security}
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			id := g.newMinor0Client("plain", "tcp", callbackAddr(l))
			assert.Equal(t, security == nil, len(g.s.state.BackPaths(id)) > 0)
		})
	}
}

// TestPlainDialsTogether checks that callbacks to a client that does not accept a connection wait
// for one attempt together, each no longer than its own time, and that one to a new address
// waits for no attempt at the old one.
func TestPlainDialsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		p := &minor0Conn{connect: func(ctx context.Context, addr string, _ oncrpc.ClientConfig) (*oncrpc.TCPClient, error) {
			dials.Add(1)
			if addr == "192.0.2.1:2" {
				return nil, syscall.ECONNREFUSED
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		old, changed := nfs4state.Callback{Addr: netip.MustParseAddrPort("192.0.2.1:1")}, nfs4state.Callback{Addr: netip.MustParseAddrPort("192.0.2.1:2")}
		ctx, cancel := context.WithTimeout(t.Context(), callbackTimeout)
		defer cancel()
		begun := time.Now()
		var callers sync.WaitGroup
		for range maxCallbackWorkers {
			callers.Go(func() {
				_, err := p.getClient(ctx, old)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		synctest.Wait()
		_, err := p.getClient(ctx, changed)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Zero(t, time.Since(begun))
		callers.Wait()
		assert.Equal(t, callbackTimeout, time.Since(begun))
		assert.EqualValues(t, 2, dials.Load())
		p.closeClient()
	})
}
