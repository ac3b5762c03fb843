package exportset

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// testKey seals the handles in all tests.
var testKey = [32]byte{31: 1}

func testPattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// A fakeRootFS is a file system with only a root directory, for which it has no attributes but
// the type. Its calls wait for gate, if it is not nil.
type fakeRootFS struct {
	vfs.FS
	gate chan struct{}
}

func (f *fakeRootFS) Root() vfs.Handle { return vfs.Handle{} }

func (f *fakeRootFS) GetAttr(_ context.Context, _ *vfs.Cred, _ vfs.Handle) (vfs.Attr, error) {
	if f.gate != nil {
		<-f.gate
	}
	return vfs.Attr{Type: vfs.TypeDir}, nil
}

func (f *fakeRootFS) AppendKey(b []byte, _ vfs.Handle) ([]byte, error) { return append(b, 1), nil }

func peerAt(host int) *oncrpc.Peer {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(host >> 8), byte(host)})
	return &oncrpc.Peer{Addr: netip.AddrPortFrom(addr, 700), Network: "tcp"}
}

// clientsOf returns clients for networks, all with the options o.
func clientsOf(o exports.Options, nets ...string) (list []exports.Client) {
	for _, n := range nets {
		list = append(list, exports.Client{Host: exports.NetworkHost(netip.MustParsePrefix(n)), Options: o})
	}
	return list
}

// newTestSet exports fs as /x, after applying change.
func newTestSet(t testing.TB, fs vfs.FS, change ...func(*Config)) *Set {
	t.Helper()
	c := Config{Key: testKey, Exports: []Export{{Path: "/x", FS: fs}}}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	return s
}

// A callGroup sends calls from one peer that may wait.
type callGroup struct {
	set     *Set
	peer    *oncrpc.Peer
	waiting sync.WaitGroup

	mu       sync.Mutex
	answered map[error]int
}

func newCallGroup(s *Set, p *oncrpc.Peer) *callGroup {
	return &callGroup{set: s, peer: p, answered: make(map[error]int)}
}

// startCall sends a call that gets the root's attributes, as programs do.
func (c *callGroup) startCall() {
	e := c.set.Snapshot().List()[0]
	root := e.FS.Root()
	fh := c.set.AppendHandle(nil, e, &root)
	c.waiting.Go(func() {
		var q Request
		var reply oncrpc.Reply
		q.Begin(c.set, c.peer, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100}, &reply)
		defer q.End()
		h, err := q.Open(context.Background(), fh)
		if err == nil {
			_, err = q.Export.FS.GetAttr(context.Background(), &q.Cred, h)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered[err]++
	})
}

// fromOtherHost returns a callGroup from another host that counts as another client group: two
// hosts may hash to the same counter.
func (c *callGroup) fromOtherHost() *callGroup {
	counter := func(p *oncrpc.Peer) *partyCounts {
		return c.set.permits.counterFor(&c.set.Snapshot().List()[0].work, p)
	}
	b := newCallGroup(c.set, c.peer)
	for host := 2; counter(b.peer) == counter(c.peer); host++ {
		b.peer = peerAt(host)
	}
	return b
}
