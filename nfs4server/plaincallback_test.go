package nfs4server

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// uaddr returns the port of a listener of 127.0.0.1 as SETCLIENTID has it.
func uaddr(l net.Listener) string {
	port := l.Addr().(*net.TCPAddr).Port
	return fmt.Sprintf("127.0.0.1.%d.%d", port>>8, port&0xff)
}

// nullCall accepts a connection, and reads the call that comes by it.
func nullCall(t *testing.T, l net.Listener) (nc net.Conn, call xdr.Reader) {
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

// TestProbesAreBounded: a client whose callback does not answer has one probe under way,
// however often the client confirms its ID (R7530-10.2-1).
func TestProbesAreBounded(t *testing.T) {
	g, _ := delegRig(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	var id uint64
	for range 100 {
		id = g.plain("plain", "tcp", uaddr(silent))
	}
	nullCall(t, silent)
	r := &g.s.callbacks
	r.mu.Lock()
	q := r.clients[id]
	assert.LessOrEqual(t, len(q.waiting)+q.workers, 1)
	assert.Len(t, r.probes, 1)
	r.mu.Unlock()
}

// TestProbeOfANewCallback: a client that changes its callback while the old one is
// about to answer has the new one probed.
func TestProbeOfANewCallback(t *testing.T) {
	g, _ := delegRig(t)
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp"}
	old, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer old.Close()
	changed, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer changed.Close()
	g.plain("plain", "tcp", uaddr(old))
	nc, call := nullCall(t, old)
	g.plain("plain", "tcp", uaddr(changed))
	var reply []byte
	for _, word := range []uint32{1<<31 | 24, call.Uint32(), 1, 0, 0, 0, 0} {
		reply = xdr.AppendUint32(reply, word)
	}
	_, err = nc.Write(reply)
	require.NoError(t, err)
	nullCall(t, changed)
}

// TestNoCallbackInClear checks that a client of version 4.0 inside of TLS is not called
// back, because that would be in clear: it gets no delegations.
func TestNoCallbackInClear(t *testing.T) {
	for _, security := range []*oncrpc.Security{nil, {}, {Mutual: true}} {
		t.Run(security.String(), func(t *testing.T) {
			g, _ := delegRig(t)
			g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("127.0.0.1:700"), Network: "tcp", Security: security}
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			id := g.plain("plain", "tcp", uaddr(l))
			assert.Equal(t, security == nil, len(g.s.state.BackPaths(id)) > 0)
		})
	}
}
